"""Key and value rows: the last grants, and what the broker has not heard yet.

Lies in the data directory, which the agent itself cannot reach. Nothing here is lost by a kill.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from services.hyperhive_mcp.store.database import Database
from shared.wire.agents import Grants
from shared.wire.control import UnknownSend
from shared.wire.messages import StatusText

_SCHEMA = "CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
_GRANTS = "grants"
_STATUS = "unpushed_status"
_UNKNOWN_SENDS = "unknown_sends"
_COMPACTION = "compaction"
_SENDS: TypeAdapter[list[UnknownSend]] = TypeAdapter(list[UnknownSend])


class StateStore:
    """Key and value rows; every write is durable when the method returns."""

    def __init__(self, path: Path) -> None:
        self._db = Database(path, [_SCHEMA])

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
        self._db.execute("DELETE FROM state WHERE key = ? AND value = ?", (_STATUS, status.model_dump_json()))

    def find_unknown_sends(self) -> list[UnknownSend]:
        """Sends whose fate the agent does not know, and the operator has not heard of."""
        found = self._get(_UNKNOWN_SENDS)
        return [] if found is None else _SENDS.validate_json(found)

    def save_unknown_sends(self, sends: list[UnknownSend]) -> None:
        self._put(_UNKNOWN_SENDS, _SENDS.dump_json(sends).decode())

    def is_compaction_wanted(self) -> bool:
        """Whether the context is to be compacted at the end of the turn."""
        return self._get(_COMPACTION) is not None

    def save_compaction(self, *, wanted: bool) -> None:
        if wanted:
            self._put(_COMPACTION, "wanted")
        else:
            self._db.execute("DELETE FROM state WHERE key = ?", (_COMPACTION,))

    def _get(self, key: str) -> str | None:
        rows = self._db.execute("SELECT value FROM state WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def _put(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", (key, value))
