"""Schedules, to whom they go, and what a full inbox could not take yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ACTIVE = sa.text("status = 'active'")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "schedules",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("owner_id", _KEY, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("description", sa.String(200)),
        sa.Column("next_fire_at", sa.BigInteger()),
        sa.Column("interval_seconds", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_fired_at", sa.BigInteger()),
        sa.Column("fires", sa.BigInteger(), nullable=False),
        sa.Column("last_result", sa.String(1000)),
        sa.Column("approval_id", _KEY),
        sa.ForeignKeyConstraint(["owner_id"], ["agents.id"], name="fk_schedules_owner_id"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_schedules_owner_id", "schedules", ["owner_id", "id"])
    op.create_index(
        "ix_schedules_next", "schedules", ["next_fire_at"], sqlite_where=_ACTIVE, postgresql_where=_ACTIVE
    )
    op.create_table(
        "schedule_targets",
        sa.Column("schedule_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("cancelled_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"], name="fk_schedule_targets_schedule_id"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_schedule_targets_agent_id"),
        sa.PrimaryKeyConstraint("schedule_id", "agent_id", name="pk_schedule_targets"),
    )
    op.create_table(
        "held_fires",
        sa.Column("schedule_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("fired_at", sa.BigInteger(), nullable=False),
        sa.Column("wake_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"], name="fk_held_fires_schedule_id"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_held_fires_agent_id"),
        sa.PrimaryKeyConstraint("schedule_id", "agent_id", name="pk_held_fires"),
    )
    op.create_index("ix_held_fires_wake_at", "held_fires", ["wake_at"])
