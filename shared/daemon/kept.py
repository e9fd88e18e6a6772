"""Key and value rows of one daemon: the last grants, and what a unit adds.

They lie in the data directory, which the agent itself cannot reach. Nothing here is lost by a kill.
"""

from __future__ import annotations

from pathlib import Path

from shared.runtime.database import Database
from shared.wire.agents import Grants

_SCHEMA = "CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
_GRANTS = "grants"


class KeptState:
    """Key and value rows; every write is durable when the method returns.

    Raises:
        Unavailable: from every method, when the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._db = Database(path, [_SCHEMA])

    def close(self) -> None:
        self._db.close()

    def find_grants(self) -> Grants | None:
        """The grants last pushed by the broker, valid while it is down."""
        found = self.find(_GRANTS)
        return None if found is None else Grants.model_validate_json(found)

    def save_grants(self, grants: Grants) -> None:
        self.put(_GRANTS, grants.model_dump_json())

    def find(self, key: str) -> str | None:
        rows = self._db.execute("SELECT value FROM state WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def put(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", (key, value))

    def drop(self, key: str, value: str | None = None) -> None:
        """Forget a row; with `value`, only while it still holds that."""
        sql = "DELETE FROM state WHERE key = ?1 AND (?2 IS NULL OR value = ?2)"
        self._db.execute(sql, (key, value))
