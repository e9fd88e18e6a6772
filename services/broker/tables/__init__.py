"""All tables of the broker, as SQLAlchemy Core metadata that SQLite and PostgreSQL both take.

Only `store` and `migrations` read it. Times are integer unix seconds.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    text,
)

from services.broker.tables.base import RowKey, Seconds, metadata
from services.broker.tables.mirrors import task_kills, task_mirrors, todo_mirrors
from services.broker.tables.planning import (
    approvals,
    held_fires,
    reminder_spills,
    reminders,
    schedule_targets,
    schedules,
)

__all__ = [
    "agent_tokens",
    "agents",
    "approvals",
    "driver_events",
    "drivers",
    "handed_hops",
    "held_fires",
    "idempotency",
    "jobs",
    "messages",
    "meta",
    "metadata",
    "notice_readers",
    "outbox",
    "refusals",
    "reminder_spills",
    "reminders",
    "schedule_targets",
    "schedules",
    "streams",
    "task_kills",
    "task_mirrors",
    "todo_mirrors",
]

agents = Table(
    "agents",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("name", String(32), nullable=False),
    Column("parent_id", RowKey, ForeignKey("agents.id")),
    Column("port_block", Integer, nullable=False),
    Column("created_at", Seconds, nullable=False),
    Column("destroyed_at", Seconds),
    Column("running", Boolean, nullable=False),  # as the driver last said
    Column("wanted", Boolean, nullable=False),
    Column("groups", Text, nullable=False),  # JSON list, as are the three below
    Column("capabilities", Text, nullable=False),
    Column("recipients", Text, nullable=False),
    Column("paths", Text, nullable=False, server_default="[]"),
    Column("grants_version", Integer, nullable=False),
    Column("boot", String(26)),
    Column("revision", String(80)),
    Column("told_revision", String(80)),  # the last one that a notice or the first connect has told
    Column("behind_revision", String(80)),  # the broker's, if another: the root agent was told
    Column("status_text", Text, nullable=False),
    Column("status_set_at", Seconds),
    Column("turn_state", String(20)),
    Column("turn_state_since", Seconds),
    Column("urgent_handed_id", RowKey, nullable=False),  # newest urgent row ever handed out
    Column("urgent_handings", BigInteger, nullable=False, server_default=text("0")),  # how often any was
    Column("limits_lifted_until", Seconds, nullable=False),
    sqlite_autoincrement=True,
)
_LIVE = text("destroyed_at IS NULL")
Index(
    "uq_agents_live_name",
    agents.c.name,
    unique=True,
    sqlite_where=_LIVE,
    postgresql_where=_LIVE,
)
Index(
    "uq_agents_live_port_block",
    agents.c.port_block,
    unique=True,
    sqlite_where=_LIVE,
    postgresql_where=_LIVE,
)

agent_tokens = Table(
    "agent_tokens",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("agent_id", RowKey, ForeignKey("agents.id"), nullable=False, index=True),
    Column("created_at", Seconds, nullable=False),
    Column("expires_at", Seconds),  # set when a newer token has taken over
)

messages = Table(
    "messages",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("sender", String(64), nullable=False),
    Column("sender_agent_id", RowKey),  # null: the operator, the system or a wake label
    Column("recipient", String(64), nullable=False),
    Column("recipient_agent_id", RowKey),  # null: the operator
    Column("body", Text, nullable=False),
    Column("sent_at", Seconds, nullable=False),
    Column("in_reply_to", RowKey),
    Column("urgent", Boolean, nullable=False),
    Column("hops", Integer, nullable=False),
    Column("origin", String(40)),  # what made it, where that was no send: "reminder:7", "wake"
    Column("pair", String(40)),  # both parties' ids, smaller first; null where no limit applies
    Column("pair_seq", RowKey),  # counts the messages of the pair
    Column("state", String(10), nullable=False),  # pending, delivered, acked or parked
    Column("delivered_count", Integer, nullable=False),
    Column("delivered_at", Seconds),  # the last time
    Column("delivered_turn", String(64)),  # the last turn that took it, kept on return
    Column("given_back_handings", BigInteger),  # its recipient's `urgent_handings` at the last return
    Column("acked_at", Seconds),
    Column("parked_at", Seconds),
    Column("failed_turns", Integer, nullable=False, server_default=text("0")),
    sqlite_autoincrement=True,
)
# The first answers what is pending, in order and how much, and what is not acked, without a look at the rows.
Index(
    "ix_messages_state",
    messages.c.recipient_agent_id,
    messages.c.state,
    messages.c.urgent.desc(),
    messages.c.id,
)
Index("ix_messages_recipient", messages.c.recipient_agent_id, messages.c.id)
Index("ix_messages_pair", messages.c.pair, messages.c.pair_seq)
_PARKED = text("state = 'parked'")
Index("ix_messages_parked", messages.c.id, sqlite_where=_PARKED, postgresql_where=_PARKED)
# Not on the state: with that as its condition, statements that bind one would be planned anew each time.
_ACKED = text("acked_at IS NOT NULL")
Index("ix_messages_acked_at", messages.c.acked_at, sqlite_where=_ACKED, postgresql_where=_ACKED)
_UNACKED = text("acked_at IS NULL")
Index(
    "ix_messages_unacked",
    messages.c.sender_agent_id,
    messages.c.id,
    sqlite_where=_UNACKED,
    postgresql_where=_UNACKED,
)

# For the hop count of what an agent sends: when it was last handed a row with this many hops.
handed_hops = Table(
    "handed_hops",
    metadata,
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("hops", Integer, primary_key=True, autoincrement=False),
    Column("last_at", Seconds, nullable=False),
    Column("last_turn", String(64)),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("scope", String(40), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("request_sha256", String(64), nullable=False),
    Column("response_json", Text, nullable=False),
    Column("created_at", Seconds, nullable=False),
)
Index("ix_idempotency_scope_created_at", idempotency.c.scope, idempotency.c.created_at)

# Sends that were refused, without bodies; one row an hour for the same thing again and again.
refusals = Table(
    "refusals",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("sender", String(64), nullable=False),
    Column("recipient", String(64), nullable=False),
    Column("code", String(40), nullable=False),
    Column("reason", String(300), nullable=False),  # of the last one, as is the size of its body
    Column("size", Integer, nullable=False),
    Column("times", BigInteger, nullable=False),
    Column("first_at", Seconds, nullable=False),
    Column("last_at", Seconds, nullable=False, index=True),
    sqlite_autoincrement=True,
)
Index("ix_refusals_what", refusals.c.sender, refusals.c.recipient, refusals.c.code, refusals.c.id)

jobs = Table(
    "jobs",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("kind", String(20), nullable=False),
    Column("agent_id", RowKey, ForeignKey("agents.id"), nullable=False, index=True),
    Column("state", String(20), nullable=False),
    Column("created_at", Seconds, nullable=False),
    Column("claimed_by", String(64)),
    Column("claimed_at", Seconds),
    Column("finished_at", Seconds),
    Column("error", Text),
    sqlite_autoincrement=True,
)
Index("ix_jobs_state", jobs.c.state, jobs.c.id)

drivers = Table(
    "drivers",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("first_seen_at", Seconds, nullable=False),
    Column("last_seen_at", Seconds, nullable=False),
)

driver_events = Table(
    "driver_events",
    metadata,
    Column("event_id", String(64), primary_key=True),
    Column("applied_at", Seconds, nullable=False, index=True),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("event_id", String(64), nullable=False, unique=True),
    Column("subject", String(200), nullable=False),
    Column("payload", Text, nullable=False),
    Column("request_id", String(64)),
    Column("created_at", Seconds, nullable=False),
    sqlite_autoincrement=True,
)

notice_readers = Table(
    "notice_readers",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("created_at", Seconds, nullable=False),
    Column("ready_at", Seconds),  # when its durable consumer was last known to exist
)

# Open control streams of all brokers on one database; empty where there is one broker alone.
streams = Table(
    "streams",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),  # the larger was opened later
    Column("broker", Integer, nullable=False),  # its number among those that run
    Column("agent_id", RowKey, nullable=False),
    Column("unit", String(20), nullable=False),
    Column("boot", String(26), nullable=False),
    Column("confirmed", BigInteger, nullable=False),  # the grants' version that the daemon has in force
    sqlite_autoincrement=True,
)
Index("uq_streams_place", streams.c.broker, streams.c.agent_id, streams.c.unit, unique=True)

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
