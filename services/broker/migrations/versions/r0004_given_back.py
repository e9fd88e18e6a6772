"""When rows were given back, counted in hand-outs of urgent rows; answers in the order of their callers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; rows given back before count as overtaken by every urgent row handed out so far."""
    op.add_column(
        "agents", sa.Column("urgent_handings", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column("messages", sa.Column("given_back_handings", sa.BigInteger()))
    op.drop_index("ix_idempotency_created_at", "idempotency")
    op.create_index("ix_idempotency_scope_created_at", "idempotency", ["scope", "created_at"])
