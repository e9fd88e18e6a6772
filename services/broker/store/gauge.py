"""How many messages wait in each inbox at most: saves counting them for every message sent.

An upper bound: it grows with what is stored, is dropped when rows return to pending, and is counted anew only
when it says that an inbox may be full. Right as long as nobody else writes; when somebody did, `clear` it.
"""

from __future__ import annotations


class PendingGauge:
    """Upper bounds by mailbox; None is the operator's. For the writer's thread only."""

    def __init__(self) -> None:
        self._bounds: dict[int | None, int] = {}

    def find(self, mailbox: int | None) -> int | None:
        return self._bounds.get(mailbox)

    def set(self, mailbox: int | None, counted: int) -> None:
        self._bounds[mailbox] = counted

    def note_stored(self, mailbox: int | None) -> None:
        if mailbox in self._bounds:
            self._bounds[mailbox] += 1

    def forget(self, mailbox: int | None) -> None:
        self._bounds.pop(mailbox, None)

    def clear(self) -> None:
        """Forget all: what was counted may have been rolled back."""
        self._bounds.clear()
