"""Which broker wrote last: as long as it was this one, what it remembers of the database still holds."""

from __future__ import annotations

from sqlalchemy import Connection, insert, literal_column, select, update

from services.broker.store.prepared import Prepared
from services.broker.tables import meta

_KEY = "last_writer"
_LAST = Prepared(select(meta.c.value).where(meta.c.key == literal_column(f"'{_KEY}'")))


def take_turn(connection: Connection, broker: int) -> bool:
    """Write down who writes, first of all in a transaction; False when another broker has written since."""
    last = _LAST.scalar(connection)
    if last == str(broker):
        return True
    if last is None:
        connection.execute(insert(meta), {"key": _KEY, "value": str(broker)})
    else:
        connection.execute(update(meta).where(meta.c.key == _KEY).values(value=str(broker)))
    return False
