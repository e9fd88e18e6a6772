"""Pending reminders, and the files of long ones that were delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from services.broker.tables import agents, messages, reminder_spills, reminders
from shared.wire.messages import MessageState
from shared.wire.reminders import Reminder, SpillState

_ROWS = select(reminders, agents.c.name.label("agent")).join_from(
    reminders, agents, reminders.c.agent_id == agents.c.id
)


@dataclass(frozen=True, slots=True)
class DueReminder:
    """What is to be delivered."""

    id: int
    agent_id: int
    body: str
    spill: str | None


class ReminderRows:
    """Reads and changes reminders."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, *, agent_id: int, body: str, spill: str | None, created_at: int, due_at: int) -> int:
        """Store one; returns its id."""
        values = {
            "agent_id": agent_id,
            "body": body,
            "spill": spill,
            "created_at": created_at,
            "due_at": due_at,
            "wake_at": due_at,
        }
        key = self._connection.execute(insert(reminders), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def find(self, reminder_id: int, *, agent_id: int | None = None) -> Reminder | None:
        """One of this agent's, or of anybody's."""
        query = _ROWS.where(reminders.c.id == reminder_id)
        if agent_id is not None:
            query = query.where(reminders.c.agent_id == agent_id)
        row = self._connection.execute(query).first()
        return None if row is None else _decode(row)

    def count(self, agent_id: int) -> int:
        """How many of the agent's are pending."""
        query = select(func.count()).select_from(reminders).where(reminders.c.agent_id == agent_id)
        return self._connection.scalar(query) or 0

    def list_page(self, *, agent_id: int | None = None, limit: int) -> list[Reminder]:
        """The soonest `limit`, of an agent or of all."""
        query = _ROWS.order_by(reminders.c.due_at, reminders.c.id).limit(limit)
        if agent_id is not None:
            query = query.where(reminders.c.agent_id == agent_id)
        return [_decode(row) for row in self._connection.execute(query)]

    def delete(self, reminder_id: int) -> None:
        self._connection.execute(delete(reminders).where(reminders.c.id == reminder_id))

    def delete_all(self, agent_id: int) -> None:
        """Forget all of an agent that is no more."""
        self._connection.execute(delete(reminders).where(reminders.c.agent_id == agent_id))

    def list_due(self, now: int, *, limit: int) -> list[DueReminder]:
        """Those whose time has come, the longest due first."""
        columns = (reminders.c.id, reminders.c.agent_id, reminders.c.body, reminders.c.spill)
        query = select(*columns).where(reminders.c.wake_at <= now)
        rows = self._connection.execute(query.order_by(reminders.c.wake_at, reminders.c.id).limit(limit))
        return [DueReminder(row.id, row.agent_id, row.body, row.spill) for row in rows]

    def find_next(self) -> int | None:
        """When the next one is due."""
        found: int | None = self._connection.scalar(select(func.min(reminders.c.wake_at)))
        return found

    def hold(self, reminder_id: int, *, until: int) -> None:
        """Try it again then."""
        self._connection.execute(update(reminders).where(reminders.c.id == reminder_id).values(wake_at=until))

    def release_held(self, *, after: int) -> int:
        """Have those tried now that are held until later than `after`: the clock was set back meanwhile."""
        held = update(reminders).where(reminders.c.wake_at > after, reminders.c.wake_at > reminders.c.due_at)
        return self._connection.execute(held.values(wake_at=reminders.c.due_at)).rowcount

    def note_spill(self, agent_id: int, spill: str, *, message_id: int, at: int) -> None:
        """Remember by which message a file is needed."""
        values = {"agent_id": agent_id, "spill": spill, "message_id": message_id, "created_at": at}
        self._connection.execute(insert(reminder_spills), values)

    def list_spills(self, agent_id: int, spills: Sequence[str]) -> dict[str, SpillState]:
        """How the reminders of those files stand that are the agent's own."""
        pending = select(reminders.c.spill).where(
            reminders.c.agent_id == agent_id, reminders.c.spill.in_(spills)
        )
        states: dict[str, SpillState] = {row.spill: "pending" for row in self._connection.execute(pending)}
        sent = (
            select(reminder_spills.c.spill, messages.c.state)
            .join_from(reminder_spills, messages, reminder_spills.c.message_id == messages.c.id)
            .where(reminder_spills.c.agent_id == agent_id, reminder_spills.c.spill.in_(spills))
        )
        for row in self._connection.execute(sent):
            states[row.spill] = "acked" if row.state == MessageState.ACKED.value else "sent"
        return states

    def delete_acked_spills(self, *, before: int, limit: int) -> int:
        """Forget up to `limit` files whose messages were acked before then, or are gone; returns how many."""
        old = (
            select(reminder_spills.c.agent_id, reminder_spills.c.spill)
            .outerjoin_from(reminder_spills, messages, reminder_spills.c.message_id == messages.c.id)
            .where(
                reminder_spills.c.created_at < before,
                or_(messages.c.acked_at < before, messages.c.id.is_(None)),
            )
            .order_by(reminder_spills.c.created_at)
            .limit(limit)
        )
        rows = self._connection.execute(old).all()
        for row in rows:
            self._connection.execute(
                delete(reminder_spills).where(
                    reminder_spills.c.agent_id == row.agent_id, reminder_spills.c.spill == row.spill
                )
            )
        return len(rows)


def _decode(row: Row[Any]) -> Reminder:
    return Reminder(
        id=row.id,
        agent=row.agent,
        body=row.body,
        created_at=row.created_at,
        due_at=row.due_at,
        spill=row.spill,
        held=row.wake_at > row.due_at,
    )
