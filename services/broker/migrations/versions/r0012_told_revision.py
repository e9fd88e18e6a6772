"""Which revision of an agent was told last: what it runs is noted at once, telling may have to wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; until now what was noted had been told."""
    op.add_column("agents", sa.Column("told_revision", sa.String(80)))
    op.execute("UPDATE agents SET told_revision = revision")
