"""Sends of which an agent was told that nobody knows whether they were stored; by its key the broker does."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from services.broker.service.callers import AgentCaller
from services.broker.service.refusals import RefusalLog
from services.broker.store import Store, Tx
from shared.wire.control import UnknownSend
from shared.wire.messages import SendResult


class UnknownSendLog:
    """Has the operator see them beside what was refused."""

    def __init__(self, store: Store, refusals: RefusalLog) -> None:
        self._store = store
        self._refusals = refusals

    async def note(self, caller: AgentCaller, sends: Sequence[UnknownSend]) -> None:
        """Note what became of them, as far as it is known."""

        def work(tx: Tx) -> list[str | None]:
            answers = [tx.idempotency.find(caller.scope, send.key) for send in sends]
            return [None if answer is None else answer.response_json for answer in answers]

        for send, answer in zip(sends, await self._store.read(work), strict=True):
            self._refusals.note_fate(
                "outcome_unknown", _tell(answer), sender=caller.name, recipient=send.to, size=send.size
            )


def _tell(answer: str | None) -> str:
    """The fate of a send by what was answered under its key, should there be anything."""
    told = "its sender was told that nobody knows whether it was stored"
    if answer is None:
        return f"{told}; nothing is stored under its key"
    try:
        sent = SendResult.model_validate_json(answer).sent
    except ValidationError:
        # The key of something else, whatever the daemon means by it.
        return told
    return f"{told}; it was, as " + ", ".join(f"#{row.id} to {row.to}" for row in sent[:5])
