"""Readers of notices: whom the broker keeps a durable consumer for."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from services.broker.tables import notice_readers


class ReaderRows:
    """Reads and changes the table of readers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, name: str, *, created_at: int) -> None:
        """Add a reader; one that is there stays as it is."""
        if not self.exists(name):
            values = {"name": name, "created_at": created_at}
            self._connection.execute(insert(notice_readers), values)

    def exists(self, name: str) -> bool:
        query = select(notice_readers.c.name).where(notice_readers.c.name == name)
        return self._connection.scalar(query) is not None

    def list_names(self) -> list[str]:
        """All readers, the oldest first."""
        query = select(notice_readers.c.name).order_by(notice_readers.c.created_at, notice_readers.c.name)
        return list(self._connection.scalars(query))

    def set_ready(self, name: str, *, at: int) -> None:
        """Note that its consumer was seen."""
        self._connection.execute(
            update(notice_readers).where(notice_readers.c.name == name).values(ready_at=at)
        )
