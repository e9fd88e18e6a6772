"""Readers of notices: whom the broker keeps a durable consumer for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

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
        if self.find(name) is None:
            values = {"name": name, "created_at": created_at}
            self._connection.execute(insert(notice_readers), values)

    def find(self, name: str) -> ReaderRow | None:
        """A reader by name."""
        row = self._connection.execute(select(notice_readers).where(notice_readers.c.name == name)).first()
        return None if row is None else ReaderRow(row.name, row.ready_at)

    def list_all(self) -> list[ReaderRow]:
        """All readers, the oldest first."""
        query = select(notice_readers).order_by(notice_readers.c.created_at, notice_readers.c.name)
        return [ReaderRow(row.name, row.ready_at) for row in self._connection.execute(query)]

    def set_ready(self, name: str, *, at: int) -> bool:
        """Note that its consumer was seen; False when there is no such reader."""
        if (row := self.find(name)) is None:
            return False
        if row.ready_at is None:
            self._connection.execute(
                update(notice_readers).where(notice_readers.c.name == name).values(ready_at=at)
            )
        return True

    def delete(self, name: str) -> bool:
        """Forget a reader; says whether there was one."""
        gone = self._connection.execute(delete(notice_readers).where(notice_readers.c.name == name))
        return gone.rowcount > 0
