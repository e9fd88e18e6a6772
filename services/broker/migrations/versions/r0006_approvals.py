"""Approvals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PENDING = sa.text("status = 'pending'")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "approvals",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("agent_id", _KEY),
        sa.Column("agent", sa.String(32)),
        sa.Column("summary", sa.String(200), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deadline_at", sa.BigInteger()),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("decided_by", sa.String(64)),
        sa.Column("note", sa.Text()),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_approvals_agent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_approvals"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_approvals_agent_id", "approvals", ["agent_id", "id"])
    op.create_index(
        "ix_approvals_pending", "approvals", ["id"], sqlite_where=_PENDING, postgresql_where=_PENDING
    )
    op.create_index(
        "ix_approvals_deadline",
        "approvals",
        ["deadline_at"],
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    )
