"""The one-line status of an agent: others see it, so it is kept free of what could pose as more than text."""

from __future__ import annotations

import unicodedata

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from shared.errors import InvalidInput
from shared.wire.messages import StatusText

# Control, line and paragraph separators, surrogates.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_one_line(text: str) -> str:
    """The text without blanks at its ends.

    Raises:
        InvalidInput: when it is more than one line or holds control characters.
    """
    if any(unicodedata.category(char) in _REFUSED for char in text):
        raise InvalidInput("the status must be one line without control characters")
    return text.strip()


def set_status(tx: Tx, agent: AgentRow, *, text: str, set_at: int | None, now: int) -> None:
    """Store a status unless a later one is there: what was set while the broker was down may arrive late.

    One from the future was set before the clock was set back, and stands in the way of none.
    """
    at = now if set_at is None else min(set_at, now)
    if agent.status_set_at is None or not at < agent.status_set_at <= now:
        tx.agents.set_status(agent.id, text=text, set_at=at)


class StatusService:
    """Takes in statuses; always on, in no tool group."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def set(self, caller: AgentCaller, status: StatusText) -> None:
        """Set the caller's status; an empty text clears it.

        Raises:
            InvalidInput: when it is not one line.
        """
        text = check_one_line(status.text)
        now = self._clock()

        def work(tx: Tx) -> None:
            set_status(tx, get_self(tx, caller, lock=True), text=text, set_at=status.set_at, now=now)

        await self._store.write(work)
