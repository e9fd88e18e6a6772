"""A task's control group (cgroups(7), version 2), where the daemon's own is for it to divide: `Delegate=yes`.

The kernel then ends all of a task at once, also when its supervisor is gone. The task's record says where the
group is before there is one, so whoever finds the record can end what is left.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shared.tasks.supervisor.record import GROUP

_PREFIX: Final = "task-"
# What systemd marks a group with that a service may divide; the first is for everybody to read.
_MARKS: Final = ("user.delegate", "trusted.delegate")
_NOTE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@functools.cache
def find_delegated() -> Path | None:
    """This process's own group, if it is for us to divide; looked for once a process and its forks."""
    try:
        with Path("/proc/self/cgroup").open(encoding="utf-8") as groups:
            own = next((line[3:].rstrip("\n") for line in groups if line.startswith("0::/")), "/")
        if own == "/" or "/.." in own:
            return None
        directory = _find_mounted(own)
    except OSError:
        return None
    return directory if directory and _is_ours(directory) else None


class TaskGroup:
    """The group of one task, as its supervisor has it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def enclose(cls, pid: int, task_id: str, record: int) -> TaskGroup | None:
        """Put a process that has no children yet into a group of its own; None where there can be none.

        Args:
            pid: of the process.
            task_id: of its task.
            record: the directory of the task's record.
        """
        if (delegated := find_delegated()) is None:
            return None
        path = delegated / f"{_PREFIX}{task_id}"
        try:
            note = os.open(GROUP, _NOTE_FLAGS, 0o600, dir_fd=record)
            try:
                os.write(note, os.fsencode(path))
            finally:
                os.close(note)
            path.mkdir()
            _write(path / "cgroup.procs", str(pid))
        except OSError:
            # As good as on a machine without: what descends from the supervisor is found in any case.
            return None
        return cls(path)

    def kill(self) -> None:
        """Kill all in it, and whatever they fork meanwhile."""
        with contextlib.suppress(OSError):
            _kill(self._path)

    def remove(self) -> None:
        """Remove it if nothing is in it any more; else that is left to the daemon's `end_group`."""
        with contextlib.suppress(OSError):
            _remove(self._path)


def end_group(record: Path, *, seconds: float = 0.0) -> bool:
    """End what is left of a task whose supervisor is gone, and remove its group.

    Args:
        record: the directory of the task's record.
        seconds: to wait for the end of what was killed.

    Returns:
        Whether nothing is left, as it is where there was no group.
    """
    try:
        path = Path(os.fsdecode((record / GROUP).read_bytes()))
    except OSError:
        return True
    if path.name != f"{_PREFIX}{record.name}":
        # Not written to its end: there was no group yet.
        return True
    try:
        _kill(path)
        _wait_until_empty(path, seconds)
        _remove(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def kill_each(path: Path) -> None:
    """Kill all in a group one by one, as before Linux 5.14: what is frozen cannot fork, but can be killed."""
    with contextlib.suppress(OSError):
        _write(path / "cgroup.freeze", "1")
    for pid in _list_pids(path):
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                # The number may be another's by now, who is not in the group.
                if pid in _list_pids(path):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _find_mounted(group: str) -> Path | None:
    """Where a group is seen: below the mount of version 2, which others may stand beside (hybrid)."""
    with Path("/proc/self/mountinfo").open(encoding="utf-8") as mounts:
        for line in mounts:
            fields, _, more = line.partition(" - ")
            if more.startswith("cgroup2 "):
                root, mounted = fields.split()[3:5]
                if root == "/" or group.startswith(f"{root}/"):
                    return Path(mounted + group.removeprefix(root if root != "/" else ""))
    return None


def _is_ours(directory: Path) -> bool:
    if not all(os.access(path, os.W_OK) for path in (directory, directory / "cgroup.procs")):
        return False
    for mark in _MARKS:
        with contextlib.suppress(OSError):
            return os.getxattr(directory, mark) == b"1"
    return False


def _kill(path: Path) -> None:
    try:
        _write(path / "cgroup.kill", "1")
    except FileNotFoundError:
        if path.is_dir():
            kill_each(path)


def _wait_until_empty(path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with (path / "cgroup.events").open("rb", buffering=0) as events:
        changes = select.poll()
        changes.register(events, select.POLLPRI)
        while b"populated 1" in events.read(4096) and (left := deadline - time.monotonic()) > 0:
            changes.poll(left * 1000)
            events.seek(0)


def _list_pids(path: Path) -> Iterator[int]:
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            # 0 is one that our pid namespace does not show.
            yield from filter(None, map(int, Path(directory, "cgroup.procs").read_text().split()))


def _remove(path: Path) -> None:
    """With the groups that the task itself may have made in it."""
    for directory, _, _ in os.walk(path, topdown=False):
        Path(directory).rmdir()


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
