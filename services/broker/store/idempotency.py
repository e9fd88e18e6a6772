"""Answers already given, by caller and key, so that a repeated request gets the same one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select

from services.broker.store.prepared import Prepared
from services.broker.tables import idempotency

_COLUMNS = ("scope", "key", "request_sha256", "response_json", "created_at")
_FIND = Prepared(
    select(idempotency.c.request_sha256, idempotency.c.response_json).where(
        idempotency.c.scope == bindparam("scope"), idempotency.c.key == bindparam("key")
    ),
    ["request_sha256", "response_json"],
)
_INSERT = Prepared(insert(idempotency).values({name: bindparam(name) for name in _COLUMNS}))


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What was asked (its SHA-256) and what was answered."""

    request_sha256: str
    response_json: str


class IdempotencyRows:
    """Reads and changes the table of given answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, scope: str, key: str) -> GivenAnswer | None:
        row = _FIND.first(self._connection, scope=scope, key=key)
        return None if row is None else GivenAnswer(row.request_sha256, row.response_json)

    def insert(self, scope: str, key: str, answer: GivenAnswer, *, now: int) -> None:
        _INSERT.run_ahead(
            self._connection,
            scope=scope,
            key=key,
            request_sha256=answer.request_sha256,
            response_json=answer.response_json,
            created_at=now,
        )

    def delete_before(self, at: int, *, limit: int) -> int:
        """Forget up to `limit` answers older than `at`; returns how many."""
        old = (
            select(idempotency.c.scope, idempotency.c.key)
            .where(idempotency.c.created_at < at)
            .order_by(idempotency.c.created_at)
            .limit(limit)
        )
        rows = self._connection.execute(old).all()
        for row in rows:
            self._connection.execute(
                delete(idempotency).where(idempotency.c.scope == row.scope, idempotency.c.key == row.key)
            )
        return len(rows)
