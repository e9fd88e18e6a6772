"""Whole texts of cut messages in `<state>/inbox/<id>.txt` (0600), until their ack.

The directory belongs to the agent, who may have planted links: nothing here follows one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from shared.runtime.files import make_private_dir, remove_private, write_private


class SpillDirectory:
    """`<state>/inbox`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._dir = state_dir / "inbox"

    def write(self, message_id: int, body: str) -> Path:
        """Write a body and return its absolute path.

        Raises:
            HiveError: when it cannot be written (full disk, a link in the way).
        """
        make_private_dir(self._dir)
        path = self._dir / f"{message_id}.txt"
        write_private(path, body.encode(), within=self._state_dir)
        return path

    def remove(self, message_ids: Iterable[int]) -> None:
        """Remove what was acked; what is not there needs no removing.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        if not self._dir.is_dir():
            return
        for message_id in message_ids:
            path = self._dir / f"{message_id}.txt"
            if path.is_symlink() or path.exists():
                remove_private(path, within=self._state_dir)
