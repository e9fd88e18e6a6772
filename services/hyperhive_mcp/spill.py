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

from shared.errors import HiveError
from shared.runtime.files import make_private_dir, open_directory, remove_private, write_private
from shared.wire.model import MAX_ID

# The agent may put whatever it likes into its own directory: only so many names are looked at.
MAX_NAMES = 10_000
_NAME = re.compile(r"([1-9][0-9]{0,18})\.txt")
_REMINDER = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.txt")


class SpillDirectory:
    """`<state>/inbox`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._dir = state_dir / "inbox"

    def path_of(self, message_id: int) -> Path:
        """Where a text is or would be."""
        return self._dir / f"{message_id}.txt"

    def write(self, message_id: int, body: str) -> Path:
        """Write a body and return its absolute path.

        Raises:
            HiveError: when it cannot be written (full disk, a link in the way).
        """
        make_private_dir(self._dir)
        path = self.path_of(message_id)
        write_private(path, body.encode(), within=self._state_dir)
        return path

    def list_ids(self, *, limit: int) -> list[int]:
        """The messages whose texts lie here, the oldest `limit`.

        Raises:
            HiveError: when the directory cannot be read, or is a link.
        """
        found = [_NAME.fullmatch(name) for name, _ in _scan(self._dir, within=self._state_dir)]
        ids = sorted(int(match[1]) for match in found if match)
        return [number for number in ids if number <= MAX_ID][:limit]

    def remove(self, message_ids: Iterable[int]) -> None:
        """Remove what was acked; what is not there needs no removing.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        for message_id in message_ids:
            _remove(self.path_of(message_id), within=self._state_dir)


class ReminderDirectory:
    """`<state>/reminders`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._dir = state_dir / "reminders"

    def path_of(self, key: str) -> Path:
        """Where a text is or would be."""
        return self._dir / f"{key}.txt"

    def write(self, key: str, body: str) -> Path:
        """Write a text and return its absolute path.

        Raises:
            HiveError: when it cannot be written (full disk, a link in the way).
        """
        make_private_dir(self._dir)
        path = self.path_of(key)
        write_private(path, body.encode(), within=self._state_dir)
        return path

    def list_ages(self, *, limit: int) -> dict[str, float]:
        """The keys of texts that lie here, the oldest `limit`, with seconds since they were written.

        Raises:
            HiveError: when the directory cannot be read, or is a link.
        """
        now = time.time()
        found = [
            (match[1], now - written)
            for name, written in _scan(self._dir, within=self._state_dir)
            if (match := _REMINDER.fullmatch(name))
        ]
        return dict(sorted(found)[:limit])

    def remove(self, keys: Iterable[str]) -> None:
        """Remove texts; what is not there needs no removing.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        for key in keys:
            _remove(self.path_of(key), within=self._state_dir)


def _scan(directory: Path, *, within: Path) -> list[tuple[str, float]]:
    """Names in a directory and when each was last written; a link counts, what it points to does not."""
    try:
        with open_directory(directory, within=within) as opened, os.scandir(opened) as entries:
            return [
                (entry.name, entry.stat(follow_symlinks=False).st_mtime)
                for entry in itertools.islice(entries, MAX_NAMES)
            ]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise HiveError(f"cannot read {directory}: {exc.strerror}", code="storage_failed") from exc


def _remove(path: Path, *, within: Path) -> None:
    # Where the agent forbids even to look, there is nothing to remove for us.
    if os.path.lexists(path):
        remove_private(path, within=within)
