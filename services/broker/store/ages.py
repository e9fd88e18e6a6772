"""When things that are stored happened: what waits longest, and what came last."""

from __future__ import annotations

from sqlalchemy import Connection, select

from services.broker.tables import jobs, messages, outbox


class AgeRows:
    """Reads times, each by the end of an index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_oldest_notice_at(self) -> int | None:
        """When the notice was made that has waited longest for JetStream."""
        return self._connection.scalar(select(outbox.c.created_at).order_by(outbox.c.id).limit(1))

    def find_newest_at(self) -> int | None:
        """When the newest message or job was stored, by the clock of then."""
        found = [
            self._connection.scalar(select(messages.c.sent_at).order_by(messages.c.id.desc()).limit(1)),
            self._connection.scalar(select(jobs.c.created_at).order_by(jobs.c.id.desc()).limit(1)),
        ]
        return max((at for at in found if at is not None), default=None)
