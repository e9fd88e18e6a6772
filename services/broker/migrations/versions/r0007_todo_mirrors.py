"""Open todos of each agent, as its daemon last reported them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table; daemons report anew when they connect."""
    op.create_table(
        "todo_mirrors",
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("todos", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_todo_mirrors_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", name="pk_todo_mirrors"),
    )
