"""Which processes the supervisor has started, on disk: `run/children.json`.

The next supervisor reads it: units of one that was killed get SIGTERM from the kernel, but may still be
ending while they hold ports and files. A process is known by its number and start time.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog

from services.hivectl.reading import read_json
from services.hivectl.supervisor.spawn import Child
from services.hivectl.supervisor.trouble import Trouble
from shared.errors import Conflict, Misconfigured
from shared.layout import HiveLayout

_log = structlog.get_logger(__name__)
_POLL_SECONDS = 0.05
RETRY_SECONDS = 2.0


@dataclass(frozen=True)
class Leftover:
    """A process of a supervisor, and which one that is: 0 and 0 if the file does not say."""

    name: str
    pid: int
    start_ticks: int
    supervisor: int = 0
    supervisor_ticks: int = 0

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks

    @property
    def is_kept(self) -> bool:
        """Whether its supervisor still runs."""
        return 0 < self.supervisor_ticks == start_ticks(self.supervisor)


class ChildRegister:
    """The children of this supervisor. While `run` runs, what could not be written is, once it can be."""

    def __init__(self, layout: HiveLayout, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._path = _path(layout)
        self._retry_seconds = retry_seconds
        self._stale = anyio.Event()
        self._trouble = Trouble(_log, failed="children_not_noted", recovered="children_noted_again")
        self._rows: list[tuple[Child, dict[str, str | int]]] = []
        self._us = {"supervisor": os.getpid(), "supervisor_ticks": start_ticks(os.getpid())}

    def add(self, child: Child) -> None:
        """Note a process right after its start."""
        row: dict[str, str | int] = {
            "name": child.name,
            "pid": child.pid,
            "start_ticks": start_ticks(child.pid),
            **self._us,
        }
        self._rows.append((child, row))
        self._write()

    async def run(self) -> None:
        """Keep the file true until cancelled."""
        while True:
            await self._stale.wait()
            await anyio.sleep(self._retry_seconds)
            self._write()

    def _write(self) -> None:
        self._rows = [(child, of) for child, of in self._rows if child.status is None]
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            fresh.touch(mode=0o600)
            # Lost with the machine, and then so are the processes: nothing to sync.
            fresh.write_text(json.dumps([of for _, of in self._rows]))
            fresh.replace(self._path)
        except OSError as exc:
            # A full disk must not keep a unit from running; until it is tried again, the file is stale.
            self._trouble.note("storage_failed", reason=exc.strerror)
            self._stale.set()
            return
        self._trouble.clear()
        self._stale = anyio.Event()

    def has(self, pid: int) -> bool:
        """Whether a process is one of these, and not reaped yet."""
        return any(child.pid == pid and child.status is None for child, _ in self._rows)


def list_running(layout: HiveLayout) -> list[Leftover]:
    """What the file names and still runs."""
    try:
        rows = read_json(_path(layout))
        known = [
            Leftover(
                str(row["name"]),
                int(row["pid"]),
                int(row["start_ticks"]),
                int(row.get("supervisor", 0)),
                int(row.get("supervisor_ticks", 0)),
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return []
    # To kill(2), 0 and less are groups; and one that had ended when it was noted never runs again.
    return [one for one in known if one.pid > 1 and one.start_ticks > 0 and one.alive]


def signal_child(layout: HiveLayout, name: str, number: signal.Signals) -> bool:
    """Send a unit of the running supervisor a signal; says whether there is one now.

    Raises:
        Misconfigured: when it is another user's.
    """
    for child in list_running(layout):
        if child.name != name:
            continue
        try:
            os.kill(child.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError as exc:
            raise Misconfigured(f"{name} belongs to another user; run hivectl as that one") from exc
        return True
    return False


def end_leftovers(layout: HiveLayout, *, grace_seconds: float, say: Callable[[str], None]) -> None:
    """Wait until nothing of an earlier supervisor runs; SIGKILL what takes longer than `grace_seconds`.

    Raises:
        Conflict: when that supervisor runs itself: its lock file was taken away from under it.
    """
    left = list_running(layout)
    if (kept := next((one for one in left if one.is_kept), None)) is not None:
        raise Conflict(
            f"the lock file of the hive in {layout.root} was removed while it runs: `kill {kept.supervisor}` "
            "stops it in order",
            code="lock_removed",
        )
    if left:
        say(f"waiting for units of an earlier supervisor to end: {', '.join(one.name for one in left)}")
    deadline = time.monotonic() + grace_seconds
    while left := [one for one in left if one.alive]:
        if time.monotonic() >= deadline:
            for one in left:
                _kill(one)
        time.sleep(_POLL_SECONDS)


def start_ticks(pid: int) -> int:
    """When a process started, in ticks since boot; 0 when there is none, or a zombie (proc(5), stat)."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    # The name in parentheses may itself hold spaces and parentheses.
    fields = content.rpartition(")")[2].split()
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])


def _kill(leftover: Leftover) -> None:
    try:
        if leftover.alive:
            os.kill(leftover.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _path(layout: HiveLayout) -> Path:
    return layout.run_dir / "children.json"
