"""Engines for SQLite and PostgreSQL, with the settings that make commits durable."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from services.broker.store.address import SETTING, PgAddress
from services.broker.store.prepared import run_plain_ahead
from shared.errors import Misconfigured

LOCK_SECONDS = 5
READERS = 4
# IMMEDIATE takes the write lock now: a deferred one could fail at its first write, with no retry.
BEGIN_WRITING = "BEGIN IMMEDIATE"
# Key of the advisory lock under which brokers write; any number does that nothing else in the database uses.
WRITE_LOCK = 0x6869_7665
_PG_STATEMENT_SECONDS = 20
# More than the server takes to give up by itself: this is for a server that says nothing any more.
_PG_SILENT_SECONDS = 10
# Less than others wait for the lock: a broker that was frozen in a transaction gives way to them.
_PG_IDLE_SECONDS = LOCK_SECONDS - 1


def parse_url(url: str) -> URL:
    """Parse a database URL.

    Raises:
        Misconfigured: when it is none, or names a database that the broker does not speak.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise Misconfigured(f"{SETTING} is no database URL, like sqlite:////path/file") from exc
    if parsed.drivername in {"postgresql", "postgresql+pg8000"}:
        PgAddress.of(parsed)
        return parsed.set(drivername="postgresql+pg8000")
    if parsed.get_backend_name() != "sqlite":
        raise Misconfigured(
            f"{SETTING} must begin with sqlite:/// or postgresql://; the driver for PostgreSQL is pg8000"
        )
    if parsed.database in {None, "", ":memory:"}:
        raise Misconfigured(f"{SETTING} must name a file: a database in memory is lost at exit")
    return parsed


def build_engine(url: URL, *, read_only: bool = False, lock_seconds: int = LOCK_SECONDS) -> Engine:
    """An engine whose transactions are explicit and whole.

    Args:
        url: from `parse_url`.
        read_only: its connections refuse to write, and each transaction sees one state.
        lock_seconds: how long a transaction that writes may wait for others.
    """
    # Parameters are message bodies and hashes of tokens: they must not get into errors and so into the log.
    options: dict[str, Any] = {
        "pool_size": READERS if read_only else 1,
        "max_overflow": 0,
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, **options)
        _make_sqlite_durable(engine, read_only=read_only, lock_seconds=lock_seconds)
        return engine
    require_postgresql()
    statement_seconds = _PG_STATEMENT_SECONDS + lock_seconds
    settings = {
        "lock_timeout": f"{lock_seconds}s",
        "statement_timeout": f"{statement_seconds}s",
        "idle_in_transaction_session_timeout": f"{_PG_IDLE_SECONDS}s",
        "default_transaction_read_only": "on" if read_only else "off",
    }
    connect = partial(
        PgAddress.of(url).connect,
        settings=settings,
        timeout_seconds=statement_seconds + _PG_SILENT_SECONDS,
    )
    engine = create_engine(url, creator=connect, **options)
    event.listen(engine, "begin", _begin_pg_reading if read_only else _begin_pg_writing)
    return engine


def require_postgresql() -> None:
    """Check that the driver is there.

    Raises:
        Misconfigured: saying how to install it.
    """
    if find_spec("pg8000") is None:
        raise Misconfigured(
            f"{SETTING} names PostgreSQL, and its driver is not installed: "
            "pip install 'hyperhive[broker,postgres]'"
        )


def create_sqlite_file(url: URL) -> None:
    """Make the database file with mode 0600 before SQLite would make it with the umask's."""
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        os.close(os.open(url.database, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))


def _make_sqlite_durable(engine: Engine, *, read_only: bool, lock_seconds: int) -> None:
    """Set pragmas at connect, and begin transactions ourselves: the driver's own habit breaks savepoints."""

    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={lock_seconds * 1000}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        else:
            connection.execute("PRAGMA journal_mode=WAL")

    def on_begin(connection: Connection) -> None:
        run_plain_ahead(connection, "BEGIN" if read_only else BEGIN_WRITING)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


def _begin_pg_writing(connection: Connection) -> None:
    # As SQLite has it: one transaction writes at a time, whichever broker's. See docs/adr/0012-postgresql.md.
    run_plain_ahead(
        connection, f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({WRITE_LOCK})"
    )


def _begin_pg_reading(connection: Connection) -> None:
    # One snapshot for all statements, as SQLite gives by itself.
    run_plain_ahead(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
