"""A task's standard input: closed, or a pipe that is fed; and whether a process waits for what is not there.

What waits is seen in `/proc`: the pipe is empty, and a process of the task is blocked in `read` on it
(proc_pid_syscall(5)), or sleeps with it as its input behind an unfinished line of output, as a prompt leaves
one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import termios
from pathlib import Path
from typing import Final

from shared.tasks.supervisor.tree import find_descendants

MAX_HELD_BYTES: Final = 1 << 20
# The number of read(2), by machine.
_READ: Final = {"x86_64": "0", "aarch64": "63", "riscv64": "63"}.get(platform.machine())


class Stdin:
    """The supervisor's end of a task's input: a pipe's writing end, closed at once unless `is_open`."""

    def __init__(self, write: int, *, is_open: bool) -> None:
        self._write: int | None = write
        self._held = bytearray()
        self._ends = False
        # Both ends of a pipe are called the same.
        self._link = str(Path(f"/proc/self/fd/{write}").readlink()) if is_open else ""
        if is_open:
            os.set_blocking(write, False)
        else:
            self.close()

    @property
    def wants_to_write(self) -> int | None:
        """The descriptor to poll for writing, while something is held."""
        return self._write if self._held else None

    @property
    def is_open(self) -> bool:
        return self._write is not None and not self._ends

    def put(self, data: bytes, *, eof: bool) -> str | None:
        """Hand `data` on, and then perhaps the end; returns what is wrong, if anything is."""
        if not self.is_open:
            return "closed"
        if len(self._held) + len(data) > MAX_HELD_BYTES:
            return "full"
        self._held += data
        self._ends = eof
        self.flush()
        return None

    def flush(self) -> None:
        """Write what the pipe takes now; without a reader what is held is of no use."""
        if self._write is None:
            return
        try:
            while self._held:
                written = os.write(self._write, bytes(self._held[: 1 << 16]))
                del self._held[:written]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._held.clear()
            self._ends = True
        if self._ends:
            self.close()

    def close(self) -> None:
        if self._write is not None:
            os.close(self._write)
            self._write = None

    def is_waited_for(self, root: int, *, after_prompt: bool) -> bool:
        """Whether some process below `root` waits for input that nobody has given."""
        if not self.is_open or self._held or self._unread_bytes():
            return False
        for process in find_descendants(root):
            with contextlib.suppress(OSError):
                if process.state == "S" and self._reads(process.pid, after_prompt=after_prompt):
                    return True
        return False

    def _unread_bytes(self) -> int:
        count = fcntl.ioctl(self._write or 0, termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(count, "little")

    def _reads(self, pid: int, *, after_prompt: bool) -> bool:
        if after_prompt and self._is_input(pid, 0):
            return True
        descriptor = os.open(f"/proc/{pid}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(descriptor, 256).decode().split()
        finally:
            os.close(descriptor)
        if len(fields) < 2 or fields[0] != _READ:
            return False
        return self._is_input(pid, int(fields[1], 16))

    def _is_input(self, pid: int, descriptor: int) -> bool:
        return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink()) == self._link
