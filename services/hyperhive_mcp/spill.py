"""Whole texts of cut messages in `<state>/inbox/<id>.txt` (0600), until their ack.

The directory belongs to the agent, who may have planted links: nothing here follows one.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path

from shared.errors import HiveError
from shared.runtime.files import make_private_dir, open_directory, remove_private, write_private
from shared.wire.model import MAX_ID

# The agent may put whatever it likes into its own directory: only so many names are looked at.
MAX_NAMES = 10_000
_NAME = re.compile(r"([1-9][0-9]{0,18})\.txt")


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
        try:
            with (
                open_directory(self._dir, within=self._state_dir) as directory,
                os.scandir(directory) as names,
            ):
                found = [_NAME.fullmatch(entry.name) for entry in itertools.islice(names, MAX_NAMES)]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise HiveError(f"cannot read {self._dir}: {exc.strerror}", code="storage_failed") from exc
        ids = sorted(int(match[1]) for match in found if match)
        return [number for number in ids if number <= MAX_ID][:limit]

    def remove(self, message_ids: Iterable[int]) -> None:
        """Remove what was acked; what is not there needs no removing.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        for message_id in message_ids:
            path = self.path_of(message_id)
            # Where the agent forbids even to look, there is nothing to remove for us.
            if os.path.lexists(path):
                remove_private(path, within=self._state_dir)
