"""Drivers: every one that ever claimed, and which of them is the one that counts, the newest."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from services.broker.tables import drivers, meta

_CURRENT = "current_driver"


class DriverRows:
    """Reads and changes the table of drivers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_current(self) -> str | None:
        """The newest driver."""
        found: str | None = self._connection.scalar(select(meta.c.value).where(meta.c.key == _CURRENT))
        return found

    def is_known(self, driver_id: str) -> bool:
        return self._connection.scalar(select(drivers.c.id).where(drivers.c.id == driver_id)) is not None

    def find_last_seen(self) -> int | None:
        """When the newest driver last claimed, at whichever broker."""
        query = select(drivers.c.last_seen_at).join_from(drivers, meta, meta.c.value == drivers.c.id)
        found: int | None = self._connection.scalar(query.where(meta.c.key == _CURRENT))
        return found

    def take_over(self, driver_id: str, *, at: int) -> None:
        """Make a driver that was never seen before the one that counts."""
        values = {"id": driver_id, "first_seen_at": at, "last_seen_at": at}
        self._connection.execute(insert(drivers), values)
        if self.find_current() is None:
            self._connection.execute(insert(meta), {"key": _CURRENT, "value": driver_id})
        else:
            self._connection.execute(update(meta).where(meta.c.key == _CURRENT).values(value=driver_id))

    def note_seen(self, driver_id: str, *, at: int) -> None:
        self._connection.execute(update(drivers).where(drivers.c.id == driver_id).values(last_seen_at=at))
