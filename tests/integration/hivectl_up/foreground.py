"""`hivectl up` in the foreground on a terminal of its own, where a test can press Ctrl-C."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.hive import BIN
from tests.support.waiting import eventually

# Makes descriptor 0 the controlling terminal of the new session, then becomes the program.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """The operator's side of a pseudo-terminal, and the program on it."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self.shown = ""

    def wait_for(self, text: str, *, within: float = 60) -> None:
        """Read on until `text` was shown."""

        def found() -> bool:
            self._read()
            return text in self.shown

        eventually(found, within=within, what=f"{text!r} in {self.shown!r}")

    def press_ctrl_c(self) -> None:
        """The terminal sends SIGINT to its foreground process group."""
        os.write(self._fd, b"\x03")

    def wait_for_end(self, *, within: float = 60) -> int:
        """Read until the program has ended; answers its exit code."""

        def ended() -> bool:
            self._read()
            return self.process.poll() is not None

        eventually(ended, within=within, what=f"the end of {self.shown!r}")
        return int(self.process.returncode)

    def _read(self) -> None:
        with suppress(BlockingIOError, OSError):
            while chunk := os.read(self._fd, 65_536):
                self.shown += chunk.decode(errors="replace")


@contextmanager
def on_terminal(root: Path, *args: str) -> Iterator[Terminal]:
    """Run `hivectl up ARGS` as the leader of a new terminal's session; killed at the end if it still runs."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, BIN / "hivectl", "up", "--root", str(root), *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    try:
        with process:
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
    finally:
        os.close(ours)
