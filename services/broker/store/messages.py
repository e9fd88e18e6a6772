"""Messages as their senders know them: storing them, finding them, counting what a pair exchanged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, bindparam, insert, or_, select

from services.broker.store.memory import PendingGauge
from services.broker.store.prepared import Prepared
from services.broker.tables import messages
from shared.wire.messages import Message, MessageState
from shared.wire.names import OPERATOR

# The columns of a row without its body, which may be 64 KiB.
HEAD = tuple(column for column in messages.c if column.name != "body")
OPERATORS_OWN = messages.c.recipient_agent_id.is_(None)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A row to store; ids are null for the operator, the system and wake labels."""

    sender: str
    sender_agent_id: int | None
    recipient: str
    recipient_agent_id: int | None
    body: str
    sent_at: int
    in_reply_to: int | None = None
    urgent: bool = False
    hops: int = 0
    pair: str | None = None
    pair_seq: int | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Replied:
    """What a reply must know of the message it answers; parties that are agents stand under their names."""

    hops: int
    agent_ids: dict[str, int]


_PENDING = MessageState.PENDING.value
_MESSAGE = [field.name for field in fields(NewMessage)]
_INSERT = Prepared(
    insert(messages)
    .values({name: bindparam(name) for name in (*_MESSAGE, "state", "delivered_count")})
    .returning(messages.c.id),
    ["id"],
)
_latest, _before = messages.alias("latest"), messages.alias("before")
_PAIR = Prepared(
    select(
        _latest.c.pair_seq,
        select(_before.c.sent_at)
        .where(
            _before.c.pair == bindparam("pair"),
            _before.c.pair_seq == _latest.c.pair_seq + 1 - bindparam("back", type_=Integer),
        )
        .scalar_subquery()
        .label("sent_at"),
    )
    .where(_latest.c.pair == bindparam("pair"))
    .order_by(_latest.c.pair_seq.desc())
    .limit(1),
    ["pair_seq", "sent_at"],
)


class MessageRows:
    """Reads and adds messages."""

    def __init__(self, connection: Connection, gauge: PendingGauge | None = None) -> None:
        self._connection = connection
        self._gauge = gauge

    def insert(self, message: NewMessage) -> int:
        """Store a row as pending; returns its id, which is never used again."""
        # Written out, for it is the busiest statement of all.
        key = _INSERT.scalar(
            self._connection,
            sender=message.sender,
            sender_agent_id=message.sender_agent_id,
            recipient=message.recipient,
            recipient_agent_id=message.recipient_agent_id,
            body=message.body,
            sent_at=message.sent_at,
            in_reply_to=message.in_reply_to,
            urgent=message.urgent,
            hops=message.hops,
            pair=message.pair,
            pair_seq=message.pair_seq,
            origin=message.origin,
            state=_PENDING,
            delivered_count=0,
        )
        assert key is not None
        if self._gauge is not None:
            self._gauge.add(message.recipient_agent_id, 1)
        return int(key)

    def find_replied(self, message_id: int, *, party_id: int | None) -> Replied | None:
        """A message that this agent (None: the operator) sent or received; else None."""
        party: ColumnElement[bool]
        if party_id is None:
            party = or_(OPERATORS_OWN, messages.c.sender == OPERATOR)
        else:
            party = or_(messages.c.sender_agent_id == party_id, messages.c.recipient_agent_id == party_id)
        columns = messages.c
        query = select(
            columns.hops,
            columns.sender,
            columns.sender_agent_id,
            columns.recipient,
            columns.recipient_agent_id,
        ).where(columns.id == message_id, party)
        row = self._connection.execute(query).first()
        if row is None:
            return None
        parties = ((row.sender, row.sender_agent_id), (row.recipient, row.recipient_agent_id))
        return Replied(row.hops, {name: agent_id for name, agent_id in parties if agent_id is not None})

    def find_pair(self, pair: str, *, back: int) -> tuple[int, int | None]:
        """How many messages a pair ever exchanged, and when the last but `back - 1` of them was sent."""
        row = _PAIR.first(self._connection, pair=pair, back=back)
        return (0, None) if row is None else (row.pair_seq, row.sent_at)


def decode(row: Any, *, body: str | None = None) -> Message:  # noqa: ANN401 - a row or a named tuple
    """A row as it travels; `body` replaces the stored one where that was not read."""
    return Message(
        id=row.id,
        sender=row.sender,
        recipient=row.recipient,
        body=row.body if body is None else body,
        sent_at=row.sent_at,
        in_reply_to=row.in_reply_to,
        urgent=bool(row.urgent),
        hops=row.hops,
        state=MessageState(row.state),
        delivered_count=row.delivered_count,
        delivered_at=row.delivered_at,
        acked_at=row.acked_at,
        failed_turns=row.failed_turns,
        parked_at=row.parked_at,
        origin=row.origin,
    )
