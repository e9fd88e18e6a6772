"""Messages that turns fail on: put aside after five, shown to the operator, who lets them go again."""

from __future__ import annotations

from typing import Final

import structlog

from services.broker.service.refusals import RefusalLog
from services.broker.store import Store, Tx
from shared.errors import Conflict, NotFound
from shared.wire.messages import Message, ParkedPage

MAX_FAILED_TURNS: Final = 5

_log = structlog.get_logger(__name__)


class ParkingService:
    """The operator's hand on parked messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get_page(self, *, limit: int, before: int | None) -> ParkedPage:
        """Parked messages of all agents."""

        def work(tx: Tx) -> ParkedPage:
            rows = tx.parked.list_page(limit=limit + 1, before=before)
            more = len(rows) > limit
            return ParkedPage(messages=rows[1:] if more else rows, more=more)

        return await self._store.read(work)

    async def release(self, message_id: int) -> Message:
        """Make a parked message pending again, with five new attempts.

        Raises:
            NotFound: when no agent that lives has it.
            Conflict: when it is not parked, saying how it stands.
        """

        def work(tx: Tx) -> Message:
            message = _get(tx, message_id)
            if not tx.parked.release(message_id):
                raise Conflict(
                    f"message {message_id} is not parked, it is {message.state}; those that are: "
                    "hivectl inbox parked",
                    code="not_parked",
                    details={"state": str(message.state)},
                )
            return _get(tx, message_id)

        message = await self._store.write(work)
        _log.info("message_released", message=message_id, recipient=message.recipient)
        return message


def note_parked(refusals: RefusalLog, message: Message) -> None:
    """Have the operator see, beside what was refused, that a message was put aside."""
    refusals.note_fate(
        "parked",
        f"message #{message.id} was put aside: {MAX_FAILED_TURNS} turns failed on it. hivectl inbox release "
        f"{message.id} hands it out again",
        sender=message.sender,
        recipient=message.recipient,
        size=len(message.body.encode()),
    )


def _get(tx: Tx, message_id: int) -> Message:
    message = tx.parked.find(message_id)
    if message is None:
        raise NotFound(f"no agent's inbox has a message {message_id}")
    return message
