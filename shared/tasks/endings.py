"""Ends that no supervisor has written, and the ending of all tasks of an agent by whoever stops it.

Does without a daemon: `end_all` speaks to the supervisors themselves.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from shared.runtime.files import write_private
from shared.tasks.model import End
from shared.tasks.supervisor import record
from shared.tasks.supervisor.cgroup import end_group
from shared.tasks.supervisor.control import connect

RECORDS_SUFFIX: Final = "-tasks"
# Beside the records of a surface: that all its tasks were ended, and why.
_ENDED_SUFFIX: Final = ".ended"
RESTARTED: Final = "the machine was restarted"
SUPERVISOR_GONE: Final = (
    "its supervisor is gone without having written an end: it was killed, perhaps for want of memory"
)
NOT_BEGUN: Final = "its supervisor was killed before it began, again and again; try later"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# What a supervisor may take beyond the grace until it gives up.
_EXTRA_SECONDS: Final = 7.0
_ORPHANS_SECONDS: Final = 1.0
_LOOK_EVERY_SECONDS: Final = 0.01


def machine_boot() -> str:
    """What this boot of the machine is called (random(4)); empty where the kernel does not say."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="utf-8").strip()
    return ""


def end_all(data_dir: Path, reason: str, grace_seconds: float) -> list[str]:
    """End every task whose records lie in a daemon's data directory, whatever its surface.

    Blocks for the grace and some seconds at most. The tasks end as `killed` with the reason; the daemon takes
    that in when it next starts.

    Returns:
        The ids of those that still run.

    Raises:
        HiveError: when it cannot be noted that those that wait are not to begin.
    """
    for directory in data_dir.glob(f"*{RECORDS_SUFFIX}/"):
        # Those that wait are known to the daemon alone.
        write_private(_ended_path(directory), reason.encode())
    left = [path for path in list_records(data_dir) if record.is_held(path)]
    asked: set[Path] = set()
    deadline = time.monotonic() + grace_seconds + _EXTRA_SECONDS
    while left and time.monotonic() < deadline:
        found = {
            path: connection
            for path in left
            if path not in asked and (connection := _ask_to_end(path, reason, grace_seconds))
        }
        asked |= found.keys()
        _wait_for_all(list(found.values()), deadline)
        # One may only have begun, and listen soon; one that hung up may have a last thing to do.
        time.sleep(_LOOK_EVERY_SECONDS)
        left = [path for path in left if record.is_held(path)]
    # Of those whose supervisor was killed, something may go on.
    for path in list_records(data_dir):
        if not record.is_held(path):
            end_group(path, seconds=_ORPHANS_SECONDS)
    return [path.name for path in left]


def find_ended(records: Path) -> str | None:
    """Why all tasks of a surface were ended, if they were and no daemon has noted it since."""
    try:
        return _ended_path(records).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def forget_ended(records: Path) -> None:
    """The ends of those that waited are noted."""
    _ended_path(records).unlink(missing_ok=True)


def find_running(data_dir: Path) -> dict[str, list[str]]:
    """The ids of the tasks that run, by surface; a surface without any is not there.

    Raises:
        OSError: when the directory cannot be read.
    """
    found: dict[str, list[str]] = {}
    for path in list_records(data_dir):
        if record.is_held(path) and record.find_end(path) is None:
            found.setdefault(path.parent.name.removesuffix(RECORDS_SUFFIX), []).append(path.name)
    return found


def find_end(data_dir: Path, surface: str, task_id: str) -> End | None:
    """How a task has ended, if its supervisor has written that and its record is still there."""
    return record.find_end(data_dir / f"{surface}{RECORDS_SUFFIX}" / task_id)


def list_records(data_dir: Path) -> Iterable[Path]:
    """The directories of all tasks that have not been tidied away."""
    return sorted(data_dir.glob(f"*{RECORDS_SUFFIX}/*/"))


def _ended_path(records: Path) -> Path:
    return records.with_name(records.name + _ENDED_SUFFIX)


def _ask_to_end(path: Path, reason: str, grace_seconds: float) -> socket.socket | None:
    try:
        connection = connect(path)
    except OSError:
        # It ends just now, or has not begun to listen.
        return None
    command = {"cmd": "kill", "reason": reason, "grace_seconds": grace_seconds}
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(command).encode() + b"\n")
    return connection


def _wait_for_all(connections: list[socket.socket], deadline: float) -> None:
    """Until each supervisor has hung up: all of its task is gone then, and its end is written."""
    # Not select(2), which takes no descriptor over 1023: a supervisor of many agents has more.
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        for connection in connections:
            opened.enter_context(connection)
            selector.register(connection, selectors.EVENT_READ, connection)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                with contextlib.suppress(OSError):
                    if key.data.recv(1 << 16):
                        continue
                selector.unregister(key.data)
