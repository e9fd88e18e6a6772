"""Background tasks as surfaces reported them, wishes to end one, and paths that are open to agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add two tables and a column; surfaces report anew when they connect, no agent has a path."""
    op.create_table(
        "task_mirrors",
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("unit", sa.String(20), nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("running", sa.BigInteger(), nullable=False),
        sa.Column("pending", sa.BigInteger(), nullable=False),
        sa.Column("tasks", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_task_mirrors_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", "unit", name="pk_task_mirrors"),
    )
    op.create_table(
        "task_kills",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("agent_id", _KEY, nullable=False),
        sa.Column("unit", sa.String(20), nullable=False),
        sa.Column("task_id", sa.String(64), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(20)),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_task_kills_agent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_task_kills"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_task_kills_agent_id", "task_kills", ["agent_id"])
    op.add_column("agents", sa.Column("paths", sa.Text(), nullable=False, server_default="[]"))
