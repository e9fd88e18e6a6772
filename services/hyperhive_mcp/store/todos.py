"""Todos: one row each while they are open, and the ids of events that were told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shared.errors import LimitExceeded
from shared.runtime.database import Database
from shared.wire.todos import MAX_OPEN_TODOS, Todo, UpsertTodo

# What is remembered of events that were told: the newest of each subsystem, and of all together.
EVENTS_A_SUBSYSTEM = 4_096
EVENTS_IN_ALL = 32_768
_TRIMMED_EVERY = 256

_SCHEMA = (
    # Ids are never used again, so that a late "done" cannot hit another todo.
    """
    CREATE TABLE IF NOT EXISTS todos (
        id INTEGER PRIMARY KEY AUTOINCREMENT, subsystem TEXT NOT NULL, key TEXT NOT NULL,
        summary TEXT NOT NULL, detail TEXT, revision INTEGER NOT NULL,
        shown_revision INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL, UNIQUE (subsystem, key)
    ) STRICT
    """,
    # One row: the last revision of any todo.
    "CREATE TABLE IF NOT EXISTS revisions (last INTEGER NOT NULL) STRICT",
    "INSERT INTO revisions (last) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM revisions)",
    """
    CREATE TABLE IF NOT EXISTS events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, subsystem TEXT NOT NULL, key TEXT NOT NULL,
        event_id TEXT NOT NULL, todo_id INTEGER NOT NULL, UNIQUE (subsystem, key, event_id)
    ) STRICT
    """,
    "CREATE INDEX IF NOT EXISTS ix_events_subsystem ON events (subsystem, seq)",
)
_LIST = "SELECT id, subsystem, key, summary, detail, revision, updated_at FROM todos ORDER BY id"
_TRIM = """
    DELETE FROM events WHERE subsystem = ?1 AND seq <=
        (SELECT seq FROM events WHERE subsystem = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)
"""
_FIELDS = ("id", "subsystem", "key", "summary", "detail", "revision", "updated_at")


class TodoStore:
    """The todos of one agent; every change is durable when the method returns."""

    def __init__(self, path: Path) -> None:
        self._db = Database(path, _SCHEMA)

    def close(self) -> None:
        self._db.close()

    def upsert(self, todo: UpsertTodo, *, now: int) -> int:
        """Make or change a todo; returns its id.

        Raises:
            LimitExceeded: when it would be one too many.
            Unavailable: when nothing can be stored.
        """
        with self._db.transaction() as db:
            told = _find_event(db, todo)
            if told is not None:
                return told
            todo_id = _store(db, todo, now=now)
            if todo.event_id is not None:
                _note_event(db, todo, todo_id)
            return todo_id

    def clear(self, subsystem: str, key: str) -> bool:
        """Remove a todo; says whether it was there."""
        sql = "DELETE FROM todos WHERE subsystem = ? AND key = ? RETURNING id"
        return bool(self._db.execute(sql, (subsystem, key)))

    def clear_ids(self, ids: Iterable[int]) -> list[int]:
        """Remove those that are there; returns their ids."""
        with self._db.transaction() as db:
            return [
                todo_id
                for todo_id in dict.fromkeys(ids)
                if db.execute("DELETE FROM todos WHERE id = ?", (todo_id,)).rowcount
            ]

    def list(self) -> list[Todo]:
        """All that are open, the oldest first."""
        rows = self._db.execute(_LIST)
        return [Todo.model_validate(dict(zip(_FIELDS, row, strict=True))) for row in rows]

    def has_news(self) -> bool:
        """Whether any has a revision that no good turn was shown."""
        return bool(self._db.execute("SELECT 1 FROM todos WHERE revision > shown_revision LIMIT 1"))

    def mark_shown(self, revisions: Mapping[int, int]) -> None:
        """Note which revision of each todo a good turn was shown, by the todos' ids."""
        with self._db.transaction() as db:
            db.executemany(
                "UPDATE todos SET shown_revision = max(shown_revision, ?) WHERE id = ?",
                [(revision, todo_id) for todo_id, revision in revisions.items()],
            )


def _find_event(db: sqlite3.Connection, todo: UpsertTodo) -> int | None:
    """The todo that the event was told of before."""
    if todo.event_id is None:
        return None
    sql = "SELECT todo_id FROM events WHERE subsystem = ? AND key = ? AND event_id = ?"
    return _first(db, sql, (todo.subsystem, todo.key, todo.event_id))


def _store(db: sqlite3.Connection, todo: UpsertTodo, *, now: int) -> int:
    sql = "SELECT id, summary, detail FROM todos WHERE subsystem = ? AND key = ?"
    found = db.execute(sql, (todo.subsystem, todo.key)).fetchone()
    if found is None:
        if (_first(db, "SELECT count(*) FROM todos") or 0) >= MAX_OPEN_TODOS:
            raise LimitExceeded(
                f"{MAX_OPEN_TODOS} todos are open, which is the limit; clear some first",
                code="too_many_todos",
            )
        values = (todo.subsystem, todo.key, todo.summary, todo.detail, _next_revision(db), now)
        sql = "INSERT INTO todos (subsystem, key, summary, detail, revision, updated_at) VALUES (?,?,?,?,?,?)"
        return int(db.execute(sql, values).lastrowid or 0)
    todo_id = int(found[0])
    if found[1] != todo.summary:
        db.execute("UPDATE todos SET revision = ? WHERE id = ?", (_next_revision(db), todo_id))
    if found[1:] != (todo.summary, todo.detail):
        changed = (todo.summary, todo.detail, now, todo_id)
        db.execute("UPDATE todos SET summary = ?, detail = ?, updated_at = ? WHERE id = ?", changed)
    return todo_id


def _next_revision(db: sqlite3.Connection) -> int:
    return int(db.execute("UPDATE revisions SET last = last + 1 RETURNING last").fetchone()[0])


def _note_event(db: sqlite3.Connection, todo: UpsertTodo, todo_id: int) -> None:
    values = (todo.subsystem, todo.key, todo.event_id, todo_id)
    sql = "INSERT INTO events (subsystem, key, event_id, todo_id) VALUES (?, ?, ?, ?)"
    seq = int(db.execute(sql, values).lastrowid or 0)
    if seq % _TRIMMED_EVERY:
        return
    db.execute("DELETE FROM events WHERE seq <= ?", (seq - EVENTS_IN_ALL,))
    db.execute(_TRIM, (todo.subsystem, EVENTS_A_SUBSYSTEM))


def _first(db: sqlite3.Connection, sql: str, parameters: tuple[Any, ...] = ()) -> int | None:
    row = db.execute(sql, parameters).fetchone()
    return None if row is None else int(row[0])
