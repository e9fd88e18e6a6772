"""Open control streams, for brokers that share a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table; daemons that are connected now dial again."""
    op.create_table(
        "streams",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("broker", sa.Integer(), nullable=False),
        sa.Column("agent_id", _KEY, nullable=False),
        sa.Column("unit", sa.String(20), nullable=False),
        sa.Column("boot", sa.String(26), nullable=False),
        sa.Column("confirmed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_streams"),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_streams_place", "streams", ["broker", "agent_id", "unit"], unique=True)
