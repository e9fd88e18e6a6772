"""The first schema: agents, messages, jobs, outbox and what goes with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LIVE = sa.text("destroyed_at IS NULL")


def upgrade() -> None:
    """Create everything."""
    _create_agents()
    _create_messages()
    _create_lifecycle()
    _create_notices()


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("parent_id", _KEY),
        sa.Column("port_block", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("destroyed_at", sa.BigInteger()),
        sa.Column("running", sa.Boolean(), nullable=False),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("recipients", sa.Text(), nullable=False),
        sa.Column("grants_version", sa.Integer(), nullable=False),
        sa.Column("boot", sa.String(26)),
        sa.Column("revision", sa.String(80)),
        sa.Column("status_text", sa.Text(), nullable=False),
        sa.Column("status_set_at", sa.BigInteger()),
        sa.Column("turn_state", sa.String(20)),
        sa.Column("turn_state_since", sa.BigInteger()),
        sa.Column("urgent_handed_id", _KEY, nullable=False),
        sa.Column("limits_lifted_until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["agents.id"], name="fk_agents_parent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sqlite_autoincrement=True,
    )
    for column in ("name", "port_block"):
        op.create_index(
            f"uq_agents_live_{column}",
            "agents",
            [column],
            unique=True,
            sqlite_where=_LIVE,
            postgresql_where=_LIVE,
        )
    op.create_table(
        "agent_tokens",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("agent_id", _KEY, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_agent_tokens_agent_id"),
        sa.PrimaryKeyConstraint("sha256", name="pk_agent_tokens"),
    )
    op.create_index("ix_agent_tokens_agent_id", "agent_tokens", ["agent_id"])


def _create_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("sender", sa.String(64), nullable=False),
        sa.Column("sender_agent_id", _KEY),
        sa.Column("recipient", sa.String(64), nullable=False),
        sa.Column("recipient_agent_id", _KEY),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=False),
        sa.Column("in_reply_to", _KEY),
        sa.Column("urgent", sa.Boolean(), nullable=False),
        sa.Column("hops", sa.Integer(), nullable=False),
        sa.Column("pair", sa.String(40)),
        sa.Column("pair_seq", _KEY),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("delivered_count", sa.Integer(), nullable=False),
        sa.Column("delivered_at", sa.BigInteger()),
        sa.Column("delivered_turn", sa.String(64)),
        sa.Column("acked_at", sa.BigInteger()),
        sa.Column("parked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_messages_state",
        "messages",
        ["recipient_agent_id", "state", sa.literal_column("urgent DESC"), "id"],
    )
    op.create_index("ix_messages_recipient", "messages", ["recipient_agent_id", "id"])
    op.create_index("ix_messages_pair", "messages", ["pair", "pair_seq"])
    op.create_table(
        "handed_hops",
        sa.Column("agent_id", _KEY, autoincrement=False, nullable=False),
        sa.Column("hops", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("last_turn", sa.String(64)),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_handed_hops_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", "hops", name="pk_handed_hops"),
    )
    op.create_table(
        "idempotency",
        sa.Column("scope", sa.String(40), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("response_json", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])


def _create_lifecycle() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("agent_id", _KEY, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_by", sa.String(64)),
        sa.Column("claimed_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_jobs_agent_id"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_agent_id", "jobs", ["agent_id"])
    op.create_index("ix_jobs_state", "jobs", ["state", "id"])
    op.create_table(
        "drivers",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_drivers"),
    )
    op.create_table(
        "driver_events",
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("applied_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_driver_events"),
    )
    op.create_index("ix_driver_events_applied_at", "driver_events", ["applied_at"])


def _create_notices() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", _KEY, autoincrement=True, nullable=False),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("event_id", name="uq_outbox_event_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "notice_readers",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ready_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_notice_readers"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
