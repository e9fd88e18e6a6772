"""Reminders, the files of those that were delivered, and what made a message that nobody sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add them."""
    op.add_column("messages", sa.Column("origin", sa.String(40)))
    op.create_table(
        "reminders",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("agent_id", _KEY, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("spill", sa.String(26)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("wake_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_reminders_agent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_reminders"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reminders_agent_id", "reminders", ["agent_id", "due_at"])
    op.create_index("ix_reminders_wake_at", "reminders", ["wake_at", "id"])
    op.create_table(
        "reminder_spills",
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("spill", sa.String(26), nullable=False),
        sa.Column("message_id", _KEY, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_reminder_spills_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", "spill", name="pk_reminder_spills"),
    )
    op.create_index("ix_reminder_spills_created_at", "reminder_spills", ["created_at"])
