"""Messages as their senders know them: storing them, finding them, counting what a pair exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, or_, select

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


_FIND = select(*HEAD).where(messages.c.id == bindparam("message_id"))
_PAIR_LAST = (
    select(messages.c.pair_seq)
    .where(messages.c.pair == bindparam("pair"))
    .order_by(messages.c.pair_seq.desc())
    .limit(1)
)
_PAIR_AT = select(messages.c.sent_at).where(
    messages.c.pair == bindparam("pair"), messages.c.pair_seq == bindparam("seq")
)


class MessageRows:
    """Reads and adds messages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, message: NewMessage) -> int:
        """Store a row as pending; returns its id, which is never used again."""
        values = {
            "sender": message.sender,
            "sender_agent_id": message.sender_agent_id,
            "recipient": message.recipient,
            "recipient_agent_id": message.recipient_agent_id,
            "body": message.body,
            "sent_at": message.sent_at,
            "in_reply_to": message.in_reply_to,
            "urgent": message.urgent,
            "hops": message.hops,
            "pair": message.pair,
            "pair_seq": message.pair_seq,
            "state": MessageState.PENDING.value,
            "delivered_count": 0,
        }
        key = self._connection.execute(insert(messages), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def find_sent(self, message_id: int, *, sender_id: int) -> Message | None:
        """A message, without its body, that this agent sent."""
        query = _FIND.where(messages.c.sender_agent_id == sender_id)
        row = self._connection.execute(query, {"message_id": message_id}).first()
        return None if row is None else decode(row, body="")

    def find_hops_of(self, message_id: int, *, party_id: int | None) -> int | None:
        """The hop count of a message that this agent (None: the operator) sent or received; else None."""
        party: ColumnElement[bool]
        if party_id is None:
            party = or_(OPERATORS_OWN, messages.c.sender == OPERATOR)
        else:
            party = or_(messages.c.sender_agent_id == party_id, messages.c.recipient_agent_id == party_id)
        query = select(messages.c.hops).where(messages.c.id == message_id, party)
        found: int | None = self._connection.scalar(query)
        return found

    def count_pair(self, pair: str) -> int:
        """How many messages a pair ever exchanged: the `pair_seq` of its latest."""
        return self._connection.scalar(_PAIR_LAST, {"pair": pair}) or 0

    def find_pair_time(self, pair: str, seq: int) -> int | None:
        """When the pair's message number `seq` was sent."""
        found: int | None = self._connection.scalar(_PAIR_AT, {"pair": pair, "seq": seq})
        return found


def decode(row: Row[Any], *, body: str | None = None) -> Message:
    """A row as it travels; `body` replaces the stored one where that was not read."""
    return Message(
        id=row.id,
        sender=row.sender,
        recipient=row.recipient,
        body=row.body if body is None else body,
        sent_at=row.sent_at,
        in_reply_to=row.in_reply_to,
        urgent=row.urgent,
        hops=row.hops,
        state=MessageState(row.state),
        delivered_count=row.delivered_count,
        delivered_at=row.delivered_at,
        acked_at=row.acked_at,
    )
