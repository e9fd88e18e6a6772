"""Of which revision of the broker the root agent was told that an agent does not run it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; nobody was told yet."""
    op.add_column("agents", sa.Column("behind_revision", sa.String(80)))
