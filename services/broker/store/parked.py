"""Failed turns, and the messages that are put aside after too many of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, case, func, literal_column, select, update

from services.broker.store.inbox import URGENT_HANDINGS
from services.broker.store.memory import PendingGauge
from services.broker.store.messages import decode
from services.broker.tables import agents, messages
from shared.wire.messages import Message, MessageState

_OPEN = (MessageState.PENDING.value, MessageState.DELIVERED.value)
# As a literal, so that the planner sees that the partial index fits.
_IS_PARKED = messages.c.state == literal_column(f"'{MessageState.PARKED.value}'")
_LIVE_PARKED = (
    select(messages)
    .join(agents, agents.c.id == messages.c.recipient_agent_id)
    .where(_IS_PARKED, agents.c.destroyed_at.is_(None))
)
MAX_COUNTED = 10_000
# The order has SQLite walk the small partial index, and not the large one that has all columns asked for.
_COUNT = select(func.count()).select_from(
    _LIVE_PARKED.with_only_columns(messages.c.id).order_by(messages.c.id).limit(MAX_COUNTED).subquery()
)


class ParkedRows:
    """Counts failed turns, parks and releases."""

    def __init__(self, connection: Connection, gauge: PendingGauge | None = None) -> None:
        self._connection = connection
        self._gauge = gauge

    def fail_turn(
        self, agent_id: int, turn: str, *, ids: Sequence[int] | None, most: int, at: int
    ) -> tuple[int, list[int]]:
        """Return the rows of a failed turn to pending, but park those for which it was the `most`th.

        A row leaves the turn by it: counting the same turn again finds nothing, however often it is asked.

        Returns:
            How many are pending again, and the ids of those that were parked.
        """
        counted = messages.c.failed_turns + 1
        query = (
            update(messages)
            .where(
                messages.c.recipient_agent_id == agent_id,
                messages.c.state.in_(_OPEN),
                messages.c.delivered_turn == turn,
            )
            .values(
                failed_turns=counted,
                delivered_turn=None,
                given_back_handings=URGENT_HANDINGS,
                state=case((counted >= most, MessageState.PARKED.value), else_=MessageState.PENDING.value),
                parked_at=case((counted >= most, at), else_=messages.c.parked_at),
            )
            .returning(messages.c.id, messages.c.state)
        )
        if ids is not None:
            query = query.where(messages.c.id.in_(ids))
        self._forget(agent_id)
        rows = self._connection.execute(query).all()
        parked = sorted(row.id for row in rows if row.state == MessageState.PARKED.value)
        return len(rows) - len(parked), parked

    def find(self, message_id: int) -> Message | None:
        """A message of a live agent's inbox, parked or not."""
        query = (
            select(messages)
            .join(agents, agents.c.id == messages.c.recipient_agent_id)
            .where(messages.c.id == message_id, agents.c.destroyed_at.is_(None))
        )
        row = self._connection.execute(query).first()
        return None if row is None else decode(row)

    def list_page(self, *, limit: int, before: int | None) -> list[Message]:
        """The newest `limit` parked rows of live agents older than `before`, oldest first."""
        query = _LIVE_PARKED.order_by(messages.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(messages.c.id < before)
        return [decode(row) for row in self._connection.execute(query)][::-1]

    def count(self) -> int:
        """How many are parked, in all inboxes of live agents; of very many only the first 10,000."""
        return self._connection.scalar(_COUNT) or 0

    def release(self, message_id: int) -> bool:
        """Make a parked row pending, as if no turn had failed; False when it is not parked."""
        done = self._connection.execute(
            update(messages)
            .where(messages.c.id == message_id, _IS_PARKED)
            .values(
                state=MessageState.PENDING.value,
                failed_turns=0,
                parked_at=None,
                given_back_handings=URGENT_HANDINGS,
            )
            .returning(messages.c.recipient_agent_id)
        ).first()
        if done is None:
            return False
        self._forget(done.recipient_agent_id)
        return True

    def _forget(self, agent_id: int) -> None:
        if self._gauge is not None:
            self._gauge.forget(agent_id)
