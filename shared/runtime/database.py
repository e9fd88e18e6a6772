"""One SQLite file of the daemon: every write is durable when it returns, every failure is a clear error."""

from __future__ import annotations

import os
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
        is_flushed: whether each write waits until it would survive a loss of power as well. Without, it
            survives
            any kill of the process, and what was written before a `flush` survives the rest too.
    """

    def __init__(self, path: Path, schema: Sequence[str], *, is_flushed: bool = True) -> None:
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._log = path.with_name(f"{path.name}-wal")
        try:
            with ExitStack() as on_failure:
                self._db = sqlite3.connect(path, check_same_thread=False, timeout=5, isolation_level=None)
                on_failure.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute(f"PRAGMA synchronous={'FULL' if is_flushed else 'NORMAL'}")
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

    def flush(self) -> None:
        """Wait until all that was written so far would survive a loss of power.

        In WAL mode with `synchronous=NORMAL` a commit writes the log and leaves it to the kernel; SQLite
        itself syncs the log before it moves anything into the database
        (sqlite.org/pragma.html#pragma_synchronous).

        Raises:
            Unavailable: when the disk refuses it.
        """
        try:
            with self._flushing:
                log = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fdatasync(log)
                finally:
                    os.close(log)
        except FileNotFoundError:
            # Nothing has been written since the file was opened.
            return
        except OSError as exc:
            raise Unavailable(f"the daemon's state cannot be written: {exc.strerror}") from exc

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
