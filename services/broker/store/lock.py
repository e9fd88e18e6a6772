"""Keeps two brokers off one SQLite file: what one of them caches the other would change.

And any broker off a file that it cannot write, which SQLite would open all the same.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.broker.store.engine import parse_url
from shared.errors import Misconfigured, Unavailable


@contextmanager
def hold_database(database_url: str) -> Iterator[None]:
    """Hold a lock file beside the database for the length of the block; nothing to do on PostgreSQL.

    The kernel frees it when the process ends, however that comes.

    Raises:
        Unavailable: when another broker holds it.
        Misconfigured: when it cannot be created, or the database cannot be written.
    """
    url = parse_url(database_url)
    if url.get_backend_name() != "sqlite":
        yield
        return
    # Through a symbolic link it is the same database, and must be the same lock.
    database = Path(url.database or "").resolve()
    path = f"{database}.lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise Misconfigured(f"cannot create {path}: {exc.strerror}") from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise Unavailable(
                f"another broker runs on the database {database}; stop it, or set another HIVE_ROOT"
            ) from exc
        _check_writable(database)
        yield
    finally:
        os.close(descriptor)


def _check_writable(database: Path) -> None:
    """Refuse what would be read-only: SQLite would make its side files so, too, and so they would stay."""
    sides = [database.with_name(f"{database.name}{suffix}") for suffix in ("", "-wal", "-shm")]
    for path in (database.parent, *(side for side in sides if side.exists())):
        if not os.access(path, os.R_OK | os.W_OK):
            raise Misconfigured(
                f"the database cannot be written: {path} is read-only for this user. Check its owner and "
                "mode, and how its file system is mounted"
            )
