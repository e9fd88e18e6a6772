"""The processes of a task: everything that descends from its supervisor, however it tried to leave.

The supervisor is a child subreaper (prctl(2)), so a process that forks twice, calls `setsid` or loses its
parent is still its descendant. Processes are signalled through pidfds (pidfd_open(2)) that were opened before
they were looked at a second time, so a number that is used again is never hit.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Final, NamedTuple

# Rounds of stopping what appears anew, before what is left is killed anyhow.
_FREEZE_ROUNDS: Final = 20
# Behind the name.
_STATE, _PPID = 0, 1


class Process(NamedTuple):
    """One process as `/proc` shows it."""

    pid: int
    name: str
    state: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


def find_descendants(root: int, *, but: int | None = None) -> list[Process]:
    """All below `root` that have not ended, parents first; `but` is left out, what is below it is not."""
    children: dict[int, list[Process]] = {}
    for process, parent in _list_processes():
        children.setdefault(parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(), ()):
            waiting.append(process.pid)
            if process.pid != but and process.state not in "ZX":
                found.append(process)
    return found


def terminate_all(root: int, *, but: int | None = None) -> int:
    """Send SIGTERM to all below `root` at one moment; returns how many there were.

    What is forked in answer to it is left to its work. What had stopped before goes on: it hears of the
    signal only then.
    """
    stopped = _stop_all(root, but=but)
    for number in (signal.SIGTERM, signal.SIGCONT):
        for pid in stopped:
            _signal(pid, root, number)
    return len(stopped)


def kill_all(root: int) -> None:
    """Kill all below `root`."""
    _stop_all(root)
    for process in find_descendants(root):
        _signal(process.pid, root, signal.SIGKILL)


def _stop_all(root: int, *, but: int | None = None) -> list[int]:
    """Stop all, until no new one appears, so that none can fork away; those that were there."""
    seen: list[int] = []
    for _ in range(_FREEZE_ROUNDS):
        new = [process.pid for process in find_descendants(root, but=but) if process.pid not in seen]
        if not new:
            break
        for pid in new:
            _signal(pid, root, signal.SIGSTOP)
        seen += new
    return seen


def _signal(pid: int, root: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if _descends(pid, root):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _descends(pid: int, root: int) -> bool:
    while pid > 1:
        fields = _read_stat(pid)
        if fields is None:
            return False
        pid = fields[1]
        if pid == root:
            return True
    return False


def _list_processes() -> Iterator[tuple[Process, int]]:
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal() and (fields := _read_stat(int(entry.name))) is not None:
                yield fields


def _read_stat(pid: int) -> tuple[Process, int] | None:
    """A process and its parent, off proc_pid_stat(5); the name may itself hold spaces and brackets."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, 4096).decode(errors="replace")
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    begin, end = text.find("("), text.rfind(")")
    fields = text[end + 2 :].split()
    if begin < 0 or len(fields) < 2:
        return None
    return Process(pid, text[begin + 1 : end], fields[_STATE]), int(fields[_PPID])
