"""The daemon's small durable state in stdlib sqlite3: the last grants, and what the broker has not heard yet.

Lies in the data directory, which the agent itself cannot reach. Nothing here is lost by a kill.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path

from pydantic import TypeAdapter

from shared.errors import Unavailable
from shared.wire.agents import Grants
from shared.wire.control import UnknownSend
from shared.wire.messages import StatusText

_SCHEMA = "CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
_GRANTS = "grants"
_STATUS = "unpushed_status"
_UNKNOWN_SENDS = "unknown_sends"
_SENDS: TypeAdapter[list[UnknownSend]] = TypeAdapter(list[UnknownSend])


class StateStore:
    """Key and value rows; every write is durable when the method returns."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            with ExitStack() as on_failure:
                self._db = sqlite3.connect(path, check_same_thread=False, timeout=5, isolation_level=None)
                on_failure.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.execute(_SCHEMA)
                on_failure.pop_all()
        except sqlite3.Error as exc:
            raise Unavailable(f"cannot open {path}: {exc}; check the directory and its free space") from exc

    def close(self) -> None:
        self._db.close()

    def find_grants(self) -> Grants | None:
        """The grants last pushed by the broker, valid while it is down."""
        found = self._get(_GRANTS)
        return None if found is None else Grants.model_validate_json(found)

    def save_grants(self, grants: Grants) -> None:
        self._put(_GRANTS, grants.model_dump_json())

    def find_unpushed_status(self) -> StatusText | None:
        """A status that the broker has not confirmed yet."""
        found = self._get(_STATUS)
        return None if found is None else StatusText.model_validate_json(found)

    def save_unpushed_status(self, status: StatusText) -> None:
        self._put(_STATUS, status.model_dump_json())

    def drop_unpushed_status(self, status: StatusText) -> None:
        """Forget `status` once pushed; a newer one that was set meanwhile stays."""
        self._execute("DELETE FROM state WHERE key = ? AND value = ?", (_STATUS, status.model_dump_json()))

    def find_unknown_sends(self) -> list[UnknownSend]:
        """Sends whose fate the agent does not know, and the operator has not heard of."""
        found = self._get(_UNKNOWN_SENDS)
        return [] if found is None else _SENDS.validate_json(found)

    def save_unknown_sends(self, sends: list[UnknownSend]) -> None:
        self._put(_UNKNOWN_SENDS, _SENDS.dump_json(sends).decode())

    def _get(self, key: str) -> str | None:
        rows = self._execute("SELECT value FROM state WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def _put(self, key: str, value: str) -> None:
        self._execute("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", (key, value))

    def _execute(self, sql: str, parameters: tuple[str, ...]) -> list[tuple[object, ...]]:
        try:
            with self._lock:
                return self._db.execute(sql, parameters).fetchall()
        except sqlite3.Error as exc:
            raise Unavailable(f"the daemon's state cannot be read or written: {exc}") from exc
