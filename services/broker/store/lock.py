"""Keeps two brokers off one SQLite file: what one of them caches the other would change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from services.broker.store.engine import parse_url
from shared.errors import Misconfigured, Unavailable


@contextmanager
def hold_database(database_url: str) -> Iterator[None]:
    """Hold a lock file beside the database for the length of the block; nothing to do on PostgreSQL.

    The kernel frees it when the process ends, however that comes.

    Raises:
        Unavailable: when another broker holds it.
        Misconfigured: when it cannot be created.
    """
    url = parse_url(database_url)
    if url.get_backend_name() != "sqlite":
        yield
        return
    path = f"{url.database}.lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise Misconfigured(f"cannot create {path}: {exc.strerror}") from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise Unavailable(
                f"another broker runs on the database {url.database}; stop it, or set another HIVE_ROOT"
            ) from exc
        yield
    finally:
        os.close(descriptor)
