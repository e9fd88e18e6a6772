"""Answers already given, by caller and key, so that a repeated request gets the same one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from services.broker.store.prepared import Prepared
from services.broker.tables import idempotency

_COLUMNS = ("scope", "key", "request_sha256", "response_json", "created_at")
_FIND = Prepared(
    select(idempotency.c.request_sha256, idempotency.c.response_json).where(
        idempotency.c.scope == bindparam("scope"), idempotency.c.key == bindparam("key")
    ),
    ["request_sha256", "response_json"],
)
_NEXT_SCOPE = select(func.min(idempotency.c.scope)).where(idempotency.c.scope > bindparam("last"))
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

    def list_scopes(self) -> list[str]:
        """All callers of whom answers are kept; a step of the index for each, however many answers."""
        found: list[str] = []
        while (
            scope := self._connection.scalar(_NEXT_SCOPE, {"last": found[-1] if found else ""})
        ) is not None:
            found.append(scope)
        return found

    def trim(self, scope: str, *, since: int, keep: int, limit: int) -> int:
        """Forget up to `limit` answers to one caller: older than `since`, or not among the newest `keep`.

        Returns how many; those of one second with the oldest that is kept may stay.
        """
        own = idempotency.c.scope == scope
        newest_first = select(idempotency.c.created_at).where(own).order_by(idempotency.c.created_at.desc())
        oldest_kept = self._connection.scalar(newest_first.offset(keep - 1).limit(1))
        before = since if oldest_kept is None else max(since, oldest_kept)
        old = (
            select(idempotency.c.key)
            .where(own, idempotency.c.created_at < before)
            .order_by(idempotency.c.created_at)
            .limit(limit)
        )
        return self._connection.execute(delete(idempotency).where(own, idempotency.c.key.in_(old))).rowcount
