"""What runs and what its work leaves on disk: supervisor, leftovers of an earlier one, the database's WAL."""

from __future__ import annotations

from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.doctor.machine import check_open_files
from services.hivectl.doctor.versions import check_revision
from services.hivectl.supervisor.children import list_running
from services.hivectl.supervisor.instance import Instance, find_instance
from shared.errors import Misconfigured
from shared.layout import HiveLayout

# The broker's checkpoints keep it at a few MiB.
LARGE_WAL_BYTES = 64 * 1024 * 1024


def check_processes(layout: HiveLayout, *, up: bool, agents: int, proc: Path = Path("/proc")) -> list[Check]:
    """The supervisor's side of a hive; where none runs, what an earlier one has left."""
    checks = [check_wal(layout.database)]
    if not up:
        return [*checks, _check_leftovers(layout)]
    try:
        instance = find_instance(layout)
    except Misconfigured:
        return checks  # said by files.contents
    if instance is None:
        return checks
    return [*checks, *_check_supervisor(layout, instance, agents=agents, proc=proc)]


def _check_supervisor(layout: HiveLayout, instance: Instance, *, agents: int, proc: Path) -> list[Check]:
    broker = next((one.pid for one in list_running(layout) if one.name == "broker"), None)
    whose, pid = ("the supervisor", instance.pid) if broker is None else ("the broker", broker)
    return [
        check_revision("supervisor.revision", "the supervisor", instance.revision),
        check_open_files(proc / str(pid) / "limits", whose=whose, agents=agents),
    ]


def _check_leftovers(layout: HiveLayout) -> Check:
    """Units of a supervisor that was killed get SIGTERM from the kernel; what stays holds ports and files."""
    name = "supervisor.leftovers"
    left = list_running(layout)
    if left:
        names = ", ".join(f"{one.name} ({one.pid})" for one in left)
        detail = f"of an earlier supervisor there still run: {names}"
        return error(name, detail, "`hivectl down` waits for them, and ends what takes longer than 10 s")
    return passed(name, "nothing runs of an earlier supervisor")


def check_wal(database: Path, *, large_bytes: int = LARGE_WAL_BYTES) -> Check:
    """The write-ahead log grows while somebody reads an old state of the database (sqlite.org/wal)."""
    name = "database.wal"
    try:
        size = database.with_name(f"{database.name}-wal").stat().st_size
    except OSError:
        return passed(name, "no write-ahead log")
    detail = f"the write-ahead log has {size / 2**20:.1f} MiB"
    if size > large_bytes:
        mend = (
            f"end whatever else has {database} open (`fuser`); `hivectl down` empties the log, "
            "then `hivectl up`"
        )
        return warning(name, detail, mend)
    return passed(name, detail)
