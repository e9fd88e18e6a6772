"""Which daemons are connected to which of the brokers on one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, text, update

from services.broker.tables import streams

# First half of the key of the advisory lock that a broker holds while it is there; the second is its number.
MEMBER_LOCK = 0x6869_766D
_ALIVE = text(
    "SELECT objid::bigint FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
    "WHERE locktype = 'advisory' AND classid = :lock AND objsubid = 2 AND datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A daemon's stream at one of the brokers."""

    broker: int
    agent_id: int
    unit: str
    boot: str
    confirmed: int
    id: int = 0


class StreamRows:
    """Reads and changes the table of streams. On PostgreSQL only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_brokers(self) -> set[int]:
        """The numbers of the brokers that are there."""
        return set(self._connection.scalars(_ALIVE, {"lock": MEMBER_LOCK}))

    def list_all(self) -> list[OpenStream]:
        """All rows, also of brokers that are no more; the one opened last at the end."""
        query = select(streams).order_by(streams.c.id)
        return [
            OpenStream(row.broker, row.agent_id, row.unit, row.boot, row.confirmed, row.id)
            for row in self._connection.execute(query)
        ]

    def insert(self, stream: OpenStream) -> None:
        values = {
            "broker": stream.broker,
            "agent_id": stream.agent_id,
            "unit": stream.unit,
            "boot": stream.boot,
            "confirmed": stream.confirmed,
        }
        self._connection.execute(insert(streams), values)

    def confirm(self, agent_id: int, unit: str, boot: str, version: int) -> None:
        """Note at whichever broker the stream is that its daemon has these grants in force."""
        self._connection.execute(
            update(streams)
            .where(
                streams.c.agent_id == agent_id,
                streams.c.unit == unit,
                streams.c.boot == boot,
                streams.c.confirmed < version,
            )
            .values(confirmed=version)
        )

    def delete(self, ids: Collection[int]) -> None:
        self._connection.execute(delete(streams).where(streams.c.id.in_(ids)))
