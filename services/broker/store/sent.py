"""Messages as those who sent them ask for them: how they stand, and how their recipients do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, select

from services.broker.store.messages import decode
from services.broker.tables import agents, messages
from shared.wire.messages import Message
from shared.wire.names import OPERATOR

_ROWS = select(messages, agents.c.running, agents.c.destroyed_at).select_from(
    messages.outerjoin(agents, agents.c.id == messages.c.recipient_agent_id)
)
# What has an origin (a reminder, a schedule) its sender did not send. The index has what is not acked.
_OPEN = and_(messages.c.acked_at.is_(None), messages.c.origin.is_(None))


@dataclass(frozen=True, slots=True)
class SentRow:
    """A message, and its recipient: None is the operator; else whether it runs and whether it still is."""

    message: Message
    recipient_id: int | None
    running: bool
    is_destroyed: bool


class SentRows:
    """Reads messages by their senders; None is the operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, message_id: int) -> SentRow | None:
        """A message, whoever sent it."""
        return self._first(_ROWS.where(messages.c.id == message_id))

    def find_own(self, message_id: int, sender_id: int) -> SentRow | None:
        """A message that this agent sent."""
        return self._first(_ROWS.where(messages.c.id == message_id, messages.c.sender_agent_id == sender_id))

    def list_open(self, sender_id: int | None, *, limit: int, before: int | None) -> list[SentRow]:
        """The newest `limit` that are not acked and older than `before`, oldest first."""
        query = _ROWS.where(_OPEN, _sent_by(sender_id)).order_by(messages.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(messages.c.id < before)
        return [_decode(row) for row in self._connection.execute(query)][::-1]

    def list_waiting(self, sender_id: int, *, since: int, until: int, limit: int) -> list[SentRow]:
        """Those to agents that are not acked and were sent from `since` to `until`, the oldest `limit`."""
        query = _ROWS.where(
            _OPEN,
            _sent_by(sender_id),
            messages.c.recipient_agent_id.is_not(None),
            messages.c.sent_at.between(since, until),
        )
        rows = self._connection.execute(query.order_by(messages.c.id).limit(limit))
        return [_decode(row) for row in rows]

    def _first(self, query: Select[Any]) -> SentRow | None:
        row = self._connection.execute(query).first()
        return None if row is None else _decode(row)


def _sent_by(sender_id: int | None) -> ColumnElement[bool]:
    if sender_id is None:
        return and_(messages.c.sender_agent_id.is_(None), messages.c.sender == OPERATOR)
    return messages.c.sender_agent_id == sender_id


def _decode(row: Row[Any]) -> SentRow:
    return SentRow(
        decode(row),
        recipient_id=row.recipient_agent_id,
        running=bool(row.running),
        is_destroyed=row.destroyed_at is not None,
    )
