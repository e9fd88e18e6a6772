"""Mailboxes: handing out, acking, returning to pending, and looking without touching.

A mailbox is an agent's id, or None for the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)

from services.broker.store.memory import PendingGauge
from services.broker.store.messages import OPERATORS_OWN, decode
from services.broker.store.prepared import Prepared
from services.broker.tables import agents, messages
from shared.wire.messages import Message, MessageState

MAX_LISTED_STAYED = 100

_ACKED = MessageState.ACKED.value
_DELIVERED = MessageState.DELIVERED.value
_PENDING = MessageState.PENDING.value

# As literals: with a partial index on the state, SQLite plans a query anew each time its state is bound.
_IS_PENDING = messages.c.state == literal_column(f"'{_PENDING}'")
_IS_DELIVERED = messages.c.state == literal_column(f"'{_DELIVERED}'")
_IS_NOT_ACKED = messages.c.state.in_(
    [literal_column(f"'{state.value}'") for state in MessageState if state is not MessageState.ACKED]
)
# A sum keeps the planner from walking all rows ever received by their id, instead of the few that are open.
_place = messages.c.id + 0

# What a row remembers when it is given back, so that it is known which urgent rows came after.
URGENT_HANDINGS = (
    select(agents.c.urgent_handings)
    .where(agents.c.id == messages.c.recipient_agent_id)
    .correlate(messages)
    .scalar_subquery()
)

_OWN = messages.c.recipient_agent_id == bindparam("agent_id")
_NEXT = Prepared(
    select(messages)
    .where(_OWN, _IS_PENDING)
    .order_by(messages.c.urgent.desc(), messages.c.id)
    .limit(bindparam("at_most")),
    messages.c.keys(),
)
_COUNT = Prepared(select(func.count()).select_from(messages).where(_OWN, _IS_PENDING))
_COUNT_OPERATORS = Prepared(select(func.count()).select_from(messages).where(OPERATORS_OWN, _IS_PENDING))
_DELIVER = Prepared(
    update(messages)
    .where(messages.c.id == bindparam("message_id"))
    .values(
        state=_DELIVERED,
        delivered_at=bindparam("at"),
        delivered_turn=bindparam("turn"),
        delivered_count=messages.c.delivered_count + 1,
    )
)


@dataclass(frozen=True, slots=True)
class Acked:
    """The ids that were acked, and those up to the mark that stayed: how many, and the oldest of them."""

    ids: list[int]
    stayed: list[int]
    stayed_count: int


@dataclass(frozen=True, slots=True)
class UrgentHanded:
    """The newest urgent row ever handed out to an agent, and how many times any was."""

    newest_id: int = 0
    handings: int = 0


_NO_URGENT = UrgentHanded()
# With it the index leads to the rows up to a mark, and not past all that wait behind it.
_EITHER_URGENCY = messages.c.urgent.in_([true(), false()])


class _Acks:
    """The statements that ack up to a mark, for agents' mailboxes or the operator's.

    A row that was given back counts as unseen: nobody can tell whether it was shown. Overtaken it is by what
    was handed out since.
    """

    def __init__(self, own: ColumnElement[bool]) -> None:
        up_to_mark = and_(own, _EITHER_URGENCY, messages.c.id <= bindparam("up_to"))
        overtaken = and_(
            messages.c.urgent.is_(False),
            messages.c.id < bindparam("newest_urgent"),
            or_(
                messages.c.given_back_handings.is_(None),
                messages.c.given_back_handings < bindparam("handings"),
            ),
        )
        ack = (
            update(messages)
            .where(up_to_mark)
            .values(state=_ACKED, acked_at=bindparam("at"))
            .returning(messages.c.id)
        )
        self.delivered = Prepared(ack.where(_IS_DELIVERED), ["id"])
        self.pending = Prepared(ack.where(_IS_PENDING, ~overtaken), ["id"])
        waiting = select(messages.c.id).where(up_to_mark, _IS_PENDING)
        self.count_stayed = Prepared(select(func.count()).select_from(waiting.subquery()))
        self.stayed = Prepared(waiting.order_by(_place).limit(MAX_LISTED_STAYED), ["id"])


# By whether it is the operator's.
_ACKS = {False: _Acks(_OWN), True: _Acks(OPERATORS_OWN)}


def _owned(agent_id: int | None) -> ColumnElement[bool]:
    return OPERATORS_OWN if agent_id is None else messages.c.recipient_agent_id == agent_id


class InboxRows:
    """Reads and changes mailboxes."""

    def __init__(self, connection: Connection, gauge: PendingGauge | None = None) -> None:
        self._connection = connection
        self._gauge = gauge

    def list_next(self, agent_id: int, *, limit: int) -> list[Message]:
        """The next pending rows: urgent first, then oldest."""
        return [decode(row) for row in _NEXT.all(self._connection, agent_id=agent_id, at_most=limit)]

    def list_still_delivered(self, agent_id: int, counts: Mapping[int, int]) -> list[Message]:
        """The own rows that are out by exactly that delivery (id to `delivered_count`), in its order."""
        query = select(messages).where(_owned(agent_id), messages.c.id.in_(counts), _IS_DELIVERED)
        found = {row.id: decode(row) for row in self._connection.execute(query)}
        rows = [found[message_id] for message_id in counts if message_id in found]
        return [row for row in rows if row.delivered_count == counts[row.id]]

    def list_states(self, agent_id: int, ids: Sequence[int]) -> dict[int, MessageState]:
        """How those of `ids` stand that are the agent's own."""
        # Found by id alone: the index of mailboxes has all of these columns, and the planner would walk it.
        query = select(messages.c.id, messages.c.state, messages.c.recipient_agent_id)
        rows = self._connection.execute(query.where(messages.c.id.in_(ids)))
        return {row.id: MessageState(row.state) for row in rows if row.recipient_agent_id == agent_id}

    def mark_delivered(self, agent_id: int, ids: Sequence[int], *, at: int, turn: str | None) -> None:
        """Hand out pending rows of the agent's."""
        for message_id in ids:
            _DELIVER.run_ahead(self._connection, message_id=message_id, at=at, turn=turn)
        self._note(agent_id, -len(ids))

    def release(self, agent_id: int, *, ids: Sequence[int] | None = None, turn: str | None = None) -> int:
        """Return delivered rows to pending: those of `ids`, those of `turn`, else all; says how many."""
        query = update(messages).where(_owned(agent_id), _IS_DELIVERED)
        if ids is not None:
            query = query.where(messages.c.id.in_(ids))
        if turn is not None:
            query = query.where(messages.c.delivered_turn == turn)
        query = query.values(state=_PENDING, given_back_handings=URGENT_HANDINGS)
        released = self._connection.execute(query).rowcount
        self._note(agent_id, released)
        return released

    def ack_until(
        self, agent_id: int | None, up_to: int, *, at: int, urgent: UrgentHanded = _NO_URGENT
    ) -> Acked:
        """Ack own rows up to `up_to`, but for those that an urgent row overtook before anyone saw them."""
        acks = _ACKS[agent_id is None]
        own: dict[str, Any] = {"up_to": up_to} if agent_id is None else {"up_to": up_to, "agent_id": agent_id}
        delivered = acks.delivered.all(self._connection, at=at, **own)
        unseen = acks.pending.all(
            self._connection, at=at, newest_urgent=urgent.newest_id, handings=urgent.handings, **own
        )
        self._note(agent_id, -len(unseen))
        ids = sorted(row.id for row in (*delivered, *unseen))
        # Without an urgent row nothing can have been overtaken.
        count = acks.count_stayed.scalar(self._connection, **own) if urgent.newest_id else 0
        stayed = [row.id for row in acks.stayed.all(self._connection, **own)] if count else []
        return Acked(ids, stayed, count or 0)

    def ack_ids(self, agent_id: int | None, ids: Sequence[int], *, at: int) -> list[int]:
        """Ack those of `ids` that are own and not acked yet; returns them, in order."""
        done = self._connection.execute(
            update(messages)
            .where(_owned(agent_id), messages.c.id.in_(ids), messages.c.state != _ACKED)
            .values(state=_ACKED, acked_at=at)
            .returning(messages.c.id)
        )
        if self._gauge is not None:
            self._gauge.forget(agent_id)
        return sorted(done.scalars())

    def count_pending(self, agent_id: int | None) -> int:
        known = None if self._gauge is None else self._gauge.find(agent_id)
        if known is not None:
            return known
        if agent_id is None:
            counted = _COUNT_OPERATORS.scalar(self._connection) or 0
        else:
            counted = _COUNT.scalar(self._connection, agent_id=agent_id) or 0
        if self._gauge is not None:
            self._gauge.set(agent_id, counted)
        return counted

    def count_pending_by_agent(self, agent_ids: Sequence[int]) -> dict[int, int]:
        """Pending rows of many agents at once; those with none are absent."""
        owner = messages.c.recipient_agent_id
        query = select(owner, func.count()).where(owner.in_(agent_ids), _IS_PENDING).group_by(owner)
        return {row[0]: row[1] for row in self._connection.execute(query)}

    def list_page(
        self, agent_id: int | None, *, include_acked: bool, limit: int, before: int | None
    ) -> list[Message]:
        """The newest `limit` rows older than `before`, oldest first; touches nothing."""
        place = messages.c.id if include_acked else _place
        query = select(messages).where(_owned(agent_id)).order_by(place.desc()).limit(limit)
        if not include_acked:
            query = query.where(_IS_NOT_ACKED)
        if before is not None:
            query = query.where(place < before)
        return [decode(row) for row in self._connection.execute(query)][::-1]

    def _note(self, agent_id: int | None, more: int) -> None:
        """Note that so many more are pending; fewer, if it is negative."""
        if self._gauge is not None:
            self._gauge.add(agent_id, more)
