"""Whole texts: of cut messages `<state>/inbox/<id>.txt`, of long reminders `<state>/reminders/<key>.txt`.

All are 0600 and stay until the ack. The directories belong to the agent, who may have planted links: nothing
here follows one.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

from shared.errors import HiveError
from shared.runtime.files import make_private_dir, open_directory, remove_private, write_private
from shared.wire.model import MAX_ID

# The agent may put whatever it likes into its own directory: only so many names are looked at.
MAX_NAMES = 10_000
_NAME = re.compile(r"([1-9][0-9]{0,18})\.txt")
_REMINDER = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.txt")

K = TypeVar("K", int, str)


class _TextDirectory(Generic[K]):
    """Texts by a key, in a directory below the agent's own."""

    def __init__(self, state_dir: Path, name: str) -> None:
        self._state_dir = state_dir
        self._dir = state_dir / name

    def path_of(self, key: K) -> Path:
        """Where a text is or would be."""
        return self._dir / f"{key}.txt"

    def write(self, key: K, text: str) -> Path:
        """Write a text and return its absolute path.

        Raises:
            HiveError: when it cannot be written (full disk, a link in the way).
        """
        make_private_dir(self._dir)
        path = self.path_of(key)
        write_private(path, text.encode(), within=self._state_dir)
        return path

    def remove(self, keys: Iterable[K]) -> None:
        """Remove texts; what is not there needs no removing.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        for key in keys:
            _remove(self.path_of(key), within=self._state_dir)

    def _scan(self) -> list[tuple[str, float]]:
        """Names, and when each was last written; a link counts, what it points to does not."""
        try:
            with open_directory(self._dir, within=self._state_dir) as opened, os.scandir(opened) as entries:
                return [
                    (entry.name, entry.stat(follow_symlinks=False).st_mtime)
                    for entry in itertools.islice(entries, MAX_NAMES)
                ]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise HiveError(f"cannot read {self._dir}: {exc.strerror}", code="storage_failed") from exc


class SpillDirectory(_TextDirectory[int]):
    """`<state>/inbox`, by the message's id."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, "inbox")

    def list_ids(self, *, limit: int) -> list[int]:
        """The messages whose texts lie here, the oldest `limit`.

        Raises:
            HiveError: when the directory cannot be read, or is a link.
        """
        found = [_NAME.fullmatch(name) for name, _ in self._scan()]
        ids = sorted(int(match[1]) for match in found if match)
        return [number for number in ids if number <= MAX_ID][:limit]


class ReminderDirectory(_TextDirectory[str]):
    """`<state>/reminders`, by the reminder's key."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, "reminders")

    def list_ages(self, *, limit: int) -> dict[str, float]:
        """The keys of texts that lie here, the oldest `limit`, with seconds since they were written.

        Raises:
            HiveError: when the directory cannot be read, or is a link.
        """
        now = time.time()
        found = [
            (match[1], now - written)
            for name, written in self._scan()
            if (match := _REMINDER.fullmatch(name))
        ]
        return dict(sorted(found)[:limit])


def _remove(path: Path, *, within: Path) -> None:
    # Where the agent forbids even to look, there is nothing to remove for us.
    if os.path.lexists(path):
        remove_private(path, within=within)
