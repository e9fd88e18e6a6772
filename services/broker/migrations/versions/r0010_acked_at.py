"""A way to the messages that were acked first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None

_ACKED = sa.text("acked_at IS NOT NULL")


def upgrade() -> None:
    """Add the index, of acked rows alone."""
    op.create_index(
        "ix_messages_acked_at", "messages", ["acked_at"], sqlite_where=_ACKED, postgresql_where=_ACKED
    )
