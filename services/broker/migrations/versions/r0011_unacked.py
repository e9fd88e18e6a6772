"""A way from a sender to what is not acked yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None

_UNACKED = sa.text("acked_at IS NULL")


def upgrade() -> None:
    """Add the index, of rows that are not acked alone."""
    op.create_index(
        "ix_messages_unacked",
        "messages",
        ["sender_agent_id", "id"],
        sqlite_where=_UNACKED,
        postgresql_where=_UNACKED,
    )
