"""What files say: settings, NATS' passwords, the supervisor's lock and spool. Modes are another module's."""

from __future__ import annotations

from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.hive_file import read_secret
from services.hivectl.nats_config import PASSWORD
from services.hivectl.provision import find_settings, list_readers, reader_file
from services.hivectl.spool import inspect_spool, spool_path
from services.hivectl.supervisor.instance import has_readable_name, is_running, lock_path
from shared.errors import HiveError, Misconfigured
from shared.layout import HiveLayout

# What the broker does not take within this has met more than a restart of the broker.
LATE_SECONDS = 60


def check_contents(layout: HiveLayout, *, now: float) -> list[Check]:
    """Everything that is wrong, or that nothing is."""
    name = "files.contents"
    found = [*_check_settings(name, layout), *_check_nats(name, layout), *_check_lock(name, layout)]
    found = found or [passed(name, "settings, passwords and locks are in order")]
    return [*found, _check_spool(layout, now)]


def _check_settings(name: str, layout: HiveLayout) -> list[Check]:
    try:
        find_settings(layout)
    except Misconfigured as exc:
        return [
            error(name, exc.message, "mend the file, or remove it and name --port-base and --hive-name again")
        ]
    return []


def _check_nats(name: str, layout: HiveLayout) -> list[Check]:
    """Passwords of a server of our own; of another one we know no form."""
    if not (layout.nats_dir / "nats.conf").exists():
        return []
    files = [layout.nats_dir / "broker.password", layout.nats_dir / "sys.password"]
    files += [reader_file(layout, reader) for reader in list_readers(layout)]
    return [check for path in files for check in _check_password(name, path)]


def _check_password(name: str, path: Path) -> list[Check]:
    try:
        read_secret(path, form=PASSWORD)
    except Misconfigured as exc:
        mend = f"remove {path}, then `hivectl down` and `hivectl up` make a new one; grant a reader's anew"
        return [error(name, exc.message, mend)]
    return []


def _check_lock(name: str, layout: HiveLayout) -> list[Check]:
    try:
        if not is_running(layout) or has_readable_name(layout):
            return []
    except Misconfigured as exc:
        return [error(name, exc.message, "remove what is in its place; `hivectl up` makes it")]
    detail = f"{lock_path(layout)} is damaged: it does not say which process the supervisor is"
    return [warning(name, detail, "`hivectl down`, which asks the kernel for it, then `hivectl up`")]


def _check_spool(layout: HiveLayout, now: float) -> Check:
    """What the driver saw, and the broker has not taken yet."""
    name = "supervisor.spool"
    try:
        waiting, oldest_at = inspect_spool(spool_path(layout))
    except HiveError as exc:
        mend = "`hivectl down`, move the file away, `hivectl up`; what it held is lost to the broker"
        return error(name, exc.message, mend)
    if waiting and oldest_at is not None and now - oldest_at > LATE_SECONDS:
        age = int(now - oldest_at)
        detail = f"{waiting} events that the broker has not taken, the oldest {age} s old"
        return warning(name, detail, "start the hive with `hivectl up`; supervisor.log says what is refused")
    return passed(name, f"{waiting} events not yet at the broker")
