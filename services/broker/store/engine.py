"""Engines for SQLite and PostgreSQL, with the settings that make commits durable."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from shared.errors import Misconfigured

BUSY_TIMEOUT_MS = 5_000
READERS = 4


def parse_url(url: str) -> URL:
    """Parse a database URL.

    Raises:
        Misconfigured: when it is none, or names a database that the broker does not speak.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise Misconfigured("HIVE_BROKER_DATABASE_URL is no database URL, like sqlite:////path/file") from exc
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise Misconfigured("HIVE_BROKER_DATABASE_URL must begin with sqlite:// or postgresql+psycopg://")
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise Misconfigured("HIVE_BROKER_DATABASE_URL must name a file: a database in memory is lost at exit")
    return parsed


def build_engine(url: URL, *, read_only: bool = False) -> Engine:
    """An engine whose transactions are explicit; with `read_only` its connections refuse to write."""
    is_sqlite = url.get_backend_name() == "sqlite"
    # Parameters are message bodies and hashes of tokens: they must not get into errors and so into the log.
    options: dict[str, Any] = {
        "pool_size": READERS if read_only else 1,
        "max_overflow": 0,
        "hide_parameters": True,
    }
    if not is_sqlite:
        options["pool_pre_ping"] = True
        # One snapshot for all statements of a read, as SQLite gives by itself.
        options["isolation_level"] = "REPEATABLE READ" if read_only else "READ COMMITTED"
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as exc:
        raise Misconfigured(f"the driver of {url.drivername} is not installed: {exc.name}") from exc
    if is_sqlite:
        _make_sqlite_durable(engine, read_only=read_only)
    return engine


def create_sqlite_file(url: URL) -> None:
    """Make the database file with mode 0600 before SQLite would make it with the umask's."""
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        os.close(os.open(url.database, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))


def _make_sqlite_durable(engine: Engine, *, read_only: bool) -> None:
    """Set pragmas at connect, and begin transactions ourselves: the driver's own habit breaks savepoints."""

    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        else:
            connection.execute("PRAGMA journal_mode=WAL")

    def on_begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock now: a deferred one could fail at its first write, with no retry.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
