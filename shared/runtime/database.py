"""One SQLite file of the daemon: every write is durable when it returns, every failure is a clear error."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from shared.errors import Unavailable


class Database:
    """A connection for all threads, one at a time.

    Args:
        path: the file, made where there is none.
        schema: statements that may be repeated.
    """

    def __init__(self, path: Path, schema: Sequence[str]) -> None:
        self._lock = threading.Lock()
        try:
            with ExitStack() as on_failure:
                self._db = sqlite3.connect(path, check_same_thread=False, timeout=5, isolation_level=None)
                on_failure.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                for statement in schema:
                    self._db.execute(statement)
                on_failure.pop_all()
        except sqlite3.Error as exc:
            raise Unavailable(f"cannot open {path}: {exc}; check the directory and its free space") from exc

    def close(self) -> None:
        self._db.close()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One statement in a transaction of its own; answers its rows.

        Raises:
            Unavailable: when the file cannot be read or written; nothing was done.
        """
        with self._guarded():
            return self._db.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Several statements that are stored together, or not at all.

        Raises:
            Unavailable: as `execute`.
        """
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # A full disk has SQLite roll back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as exc:
            raise Unavailable(f"the daemon's state cannot be read or written: {exc}") from exc
