"""The log of one unit: an append-only file that the unit writes itself, so that it outlives the supervisor.

Rotation copies and truncates, because the writer keeps its descriptor; O_APPEND takes it to the new end.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAX_BYTES = 10 * 1024 * 1024
KEPT = 3


@dataclass(frozen=True)
class LogFile:
    """`path`, and beside it `path.1` (the newest) to `path.<kept>`."""

    path: Path
    max_bytes: int = MAX_BYTES
    kept: int = KEPT

    def open(self) -> IO[bytes]:
        """Open for appending, 0600; a symbolic link in its place is refused."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self.path, flags, 0o600), "ab", buffering=0)

    def rotate(self) -> bool:
        """Move the content on when it is over `max_bytes`; says whether it was."""
        try:
            if self.path.stat().st_size <= self.max_bytes:
                return False
        except FileNotFoundError:
            return False
        for number in range(self.kept - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        with self.path.open("r+b") as source, self._numbered(1).open("wb") as target:
            os.fchmod(target.fileno(), 0o600)
            # Twice: what was written during the long copy is caught by the short one, just before the cut.
            shutil.copyfileobj(source, target)
            shutil.copyfileobj(source, target)
            source.truncate(0)
        return True

    def tail(self, *, start: int = 0, limit_bytes: int = 4096) -> str:
        """Whole lines from the end, at most `limit_bytes`, and none from before offset `start`."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                # A file shorter than `start` was rotated since.
                begin = start if start <= size else 0
                first = max(begin, size - limit_bytes)
                file.seek(first)
                text = file.read(limit_bytes).decode(errors="replace")
        except FileNotFoundError:
            return ""
        if first > begin and "\n" in text.rstrip("\n"):
            text = text.split("\n", 1)[1]
        return text.rstrip("\n")

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
