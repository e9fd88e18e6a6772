"""What `up` says to whoever started it: a terminal, or the command that waits for a detached supervisor.

Facts for the log go to the log. Nothing said here may fail because nobody reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Protocol

from services.hivectl.render import safe_block


class Console(Protocol):
    """Where lines go."""

    def say(self, text: str) -> None:
        """One line or several, for people; control characters in it are escaped."""


class TerminalConsole:
    """Lines on stderr: stdout is for the answer."""

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(safe_block(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the console


class PipeConsole:
    """JSON lines to the command that waits, until it is told how the start went; then nowhere."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def say(self, text: str) -> None:
        self._write({"say": text})

    def finish(self, message: dict[str, object]) -> None:
        """The last line. What is said from now on is in the log alone."""
        self._write(message)
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _write(self, message: dict[str, object]) -> None:
        if self._fd is None:
            return
        # The command may have been interrupted: then its terminal is not ours to care for.
        with contextlib.suppress(OSError):
            os.write(self._fd, json.dumps(message).encode() + b"\n")


class QuietConsole:
    """Says nothing: for `--json`."""

    def say(self, text: str) -> None:
        """Drop it."""
