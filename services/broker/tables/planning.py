"""Tables of what agents plan ahead: reminders, approvals, schedules."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, Table, Text, text

from services.broker.tables.base import RowKey, Seconds, metadata

reminders = Table(
    "reminders",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("agent_id", RowKey, ForeignKey("agents.id"), nullable=False),
    Column("body", Text, nullable=False),
    Column("spill", String(26)),  # the file of a long text, by its name in the state directory
    Column("created_at", Seconds, nullable=False),
    Column("due_at", Seconds, nullable=False),
    Column("wake_at", Seconds, nullable=False),  # later than `due_at` while its inbox is full
    sqlite_autoincrement=True,
)
Index("ix_reminders_agent_id", reminders.c.agent_id, reminders.c.due_at)
Index("ix_reminders_wake_at", reminders.c.wake_at, reminders.c.id)

# Files of long reminders that were delivered: each goes when its message is acked.
reminder_spills = Table(
    "reminder_spills",
    metadata,
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("spill", String(26), primary_key=True),
    Column("message_id", RowKey, nullable=False),
    Column("created_at", Seconds, nullable=False, index=True),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("kind", String(32), nullable=False),
    Column("agent_id", RowKey, ForeignKey("agents.id")),  # who submitted it; null: nobody in particular
    Column("agent", String(32)),
    Column("summary", String(200), nullable=False),
    Column("content", Text, nullable=False),  # JSON, as it was submitted; never changed
    Column("status", String(10), nullable=False),
    Column("created_at", Seconds, nullable=False),
    Column("deadline_at", Seconds),
    Column("decided_at", Seconds),
    Column("decided_by", String(64)),
    Column("note", Text),
    sqlite_autoincrement=True,
)
_UNDECIDED = text("status = 'pending'")
Index("ix_approvals_agent_id", approvals.c.agent_id, approvals.c.id)
Index("ix_approvals_pending", approvals.c.id, sqlite_where=_UNDECIDED, postgresql_where=_UNDECIDED)
Index("ix_approvals_deadline", approvals.c.deadline_at, sqlite_where=_UNDECIDED, postgresql_where=_UNDECIDED)

schedules = Table(
    "schedules",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("owner_id", RowKey, ForeignKey("agents.id"), nullable=False),
    Column("status", String(10), nullable=False),
    Column("body", Text, nullable=False),  # what was approved, once it is active
    Column("description", String(200)),
    Column("next_fire_at", Seconds),  # null: never again
    Column("interval_seconds", BigInteger),  # null: once
    Column("created_at", Seconds, nullable=False),
    Column("last_fired_at", Seconds),
    Column("fires", BigInteger, nullable=False),
    Column("last_result", String(1000)),
    Column("approval_id", RowKey),  # what waits for the operator: the whole of it, or an edit
    sqlite_autoincrement=True,
)
_ACTIVE = text("status = 'active'")
Index("ix_schedules_owner_id", schedules.c.owner_id, schedules.c.id)
Index("ix_schedules_next", schedules.c.next_fire_at, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE)

# Every target that was approved for the body that is in force.
schedule_targets = Table(
    "schedule_targets",
    metadata,
    Column("schedule_id", RowKey, ForeignKey("schedules.id"), primary_key=True, autoincrement=False),
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("cancelled_at", Seconds),
)

# Fires for inboxes that were full: at most one a schedule and target.
held_fires = Table(
    "held_fires",
    metadata,
    Column("schedule_id", RowKey, ForeignKey("schedules.id"), primary_key=True, autoincrement=False),
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("fired_at", Seconds, nullable=False),
    Column("wake_at", Seconds, nullable=False, index=True),
)
