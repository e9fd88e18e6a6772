"""Failed turns of a message, a way to the parked ones, and the table of refused sends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PARKED = sa.text("state = 'parked'")


def upgrade() -> None:
    """Add them; rows that are there have failed no turn."""
    op.add_column(
        "messages", sa.Column("failed_turns", sa.Integer(), nullable=False, server_default=sa.text("0"))
    )
    op.create_index("ix_messages_parked", "messages", ["id"], sqlite_where=_PARKED, postgresql_where=_PARKED)
    op.create_table(
        "refusals",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("sender", sa.String(64), nullable=False),
        sa.Column("recipient", sa.String(64), nullable=False),
        sa.Column("code", sa.String(40), nullable=False),
        sa.Column("reason", sa.String(300), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_refusals_last_at", "refusals", ["last_at"])
    op.create_index("ix_refusals_what", "refusals", ["sender", "recipient", "code", "id"])
