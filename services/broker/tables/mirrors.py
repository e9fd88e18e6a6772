"""Tables of what daemons report for the operator's eyes, and of tasks that the operator wants ended."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, String, Table, Text

from services.broker.tables.base import RowKey, Seconds, metadata

# The open todos that an agent's daemon last reported, for the operator alone.
todo_mirrors = Table(
    "todo_mirrors",
    metadata,
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("as_of", Seconds, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("todos", Text, nullable=False),  # JSON list
)

# The tasks that a surface last reported, for the operator alone.
task_mirrors = Table(
    "task_mirrors",
    metadata,
    Column("agent_id", RowKey, ForeignKey("agents.id"), primary_key=True, autoincrement=False),
    Column("unit", String(20), primary_key=True),
    Column("as_of", Seconds, nullable=False),
    Column("running", BigInteger, nullable=False),
    Column("pending", BigInteger, nullable=False),
    Column("tasks", Text, nullable=False),  # JSON list
)

# Tasks that the operator wanted ended; they travel to the surface once, soon or never.
task_kills = Table(
    "task_kills",
    metadata,
    Column("id", RowKey, primary_key=True, autoincrement=True),
    Column("agent_id", RowKey, ForeignKey("agents.id"), nullable=False, index=True),
    Column("unit", String(20), nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("asked_at", Seconds, nullable=False),
    Column("outcome", String(20)),  # what the surface answered
    sqlite_autoincrement=True,
)
