"""Refused sends, the last thousand entries of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, or_, select, true

from services.broker.tables import refusals
from shared.wire.refusals import Refusal

_SAME = (
    (refusals.c.sender == bindparam("sender"))
    & (refusals.c.recipient == bindparam("recipient"))
    & (refusals.c.code == bindparam("code"))
)
_FIND = (
    select(refusals.c.id, refusals.c.times, refusals.c.first_at)
    .where(_SAME, refusals.c.first_at > bindparam("since"))
    .order_by(refusals.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class NewRefusals:
    """Refusals of one kind, counted."""

    sender: str
    recipient: str
    code: str
    reason: str
    size: int
    count: int
    first_at: int
    last_at: int


class RefusalRows:
    """Reads and changes the table of refusals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, new: NewRefusals, *, since: int) -> None:
        """Add to the entry of the same kind that began after `since`, else make one; it is the newest then.

        An entry that is counted up gets a new id: pages, and what is forgotten first, go by the ids.
        """
        what = {"sender": new.sender, "recipient": new.recipient, "code": new.code}
        last = {"reason": new.reason, "size": new.size, "last_at": new.last_at}
        counted = {"times": new.count, "first_at": new.first_at}
        found = self._connection.execute(_FIND, {**what, "since": since}).first()
        if found is not None:
            self._connection.execute(delete(refusals).where(refusals.c.id == found.id))
            counted = {"times": found.times + new.count, "first_at": found.first_at}
        self._connection.execute(insert(refusals), {**what, **last, **counted})

    def trim(self, *, keep: int, sender: str | None = None) -> None:
        """Forget all but the newest `keep` entries, of all senders or of one."""
        concerned = true() if sender is None else refusals.c.sender == sender
        first_too_many = select(refusals.c.id).where(concerned).order_by(refusals.c.id.desc())
        newest = first_too_many.offset(keep).limit(1).scalar_subquery()
        self._connection.execute(delete(refusals).where(concerned, refusals.c.id <= newest))

    def delete_before(self, at: int, *, limit: int) -> int:
        """Forget up to `limit` entries that ended before `at`; returns how many."""
        old = select(refusals.c.id).where(refusals.c.last_at < at).order_by(refusals.c.last_at).limit(limit)
        ids = list(self._connection.scalars(old))
        self._connection.execute(delete(refusals).where(refusals.c.id.in_(ids)))
        return len(ids)

    def list_page(self, *, party: str | None, limit: int, before: int | None) -> list[Refusal]:
        """The newest `limit` entries older than `before` that concern `party`, oldest first."""
        query = select(refusals).order_by(refusals.c.id.desc()).limit(limit)
        if party is not None:
            query = query.where(or_(refusals.c.sender == party, refusals.c.recipient == party))
        if before is not None:
            query = query.where(refusals.c.id < before)
        return [_decode(row) for row in self._connection.execute(query)][::-1]


def _decode(row: Row[Any]) -> Refusal:
    return Refusal(
        id=row.id,
        sender=row.sender,
        recipient=row.recipient,
        code=row.code,
        reason=row.reason,
        size=row.size,
        count=row.times,
        first_at=row.first_at,
        last_at=row.last_at,
    )
