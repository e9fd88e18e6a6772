"""Schedules that an edit had made active again after their only fire: they are done."""

from __future__ import annotations

from alembic import op

revision = "r0013"
down_revision = "r0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """End them; they would never have fired."""
    op.execute("UPDATE schedules SET status = 'done' WHERE status = 'active' AND next_fire_at IS NULL")
