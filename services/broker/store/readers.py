"""Readers of notices: whom the broker keeps a durable consumer for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from services.broker.tables import notice_readers


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """A reader, and when its consumer was first seen."""

    name: str
    ready_at: int | None


class ReaderRows:
    """Reads and changes the table of readers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, name: str, *, created_at: int) -> None:
        """Add a reader; one that is there stays as it is."""
        if self._find(name) is None:
            values = {"name": name, "created_at": created_at}
            self._connection.execute(insert(notice_readers), values)

    def get(self, name: str) -> ReaderRow:
        """A reader that was inserted before."""
        found = self._find(name)
        assert found is not None
        return found

    def list_all(self) -> list[ReaderRow]:
        """All readers, the oldest first."""
        query = select(notice_readers).order_by(notice_readers.c.created_at, notice_readers.c.name)
        return [ReaderRow(row.name, row.ready_at) for row in self._connection.execute(query)]

    def set_ready(self, name: str, *, at: int) -> None:
        """Note that its consumer was seen, unless that is known."""
        self._connection.execute(
            update(notice_readers)
            .where(notice_readers.c.name == name, notice_readers.c.ready_at.is_(None))
            .values(ready_at=at)
        )

    def _find(self, name: str) -> ReaderRow | None:
        row = self._connection.execute(select(notice_readers).where(notice_readers.c.name == name)).first()
        return None if row is None else ReaderRow(row.name, row.ready_at)
