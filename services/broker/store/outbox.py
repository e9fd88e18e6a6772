"""The outbox: notices that JetStream has not acked yet, in the order in which they must get there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select

from services.broker.tables import outbox


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice to publish; `payload` is the CloudEvent's JSON."""

    event_id: str
    subject: str
    payload: str
    created_at: int
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutboxRow(NewNotice):
    """A notice and its place in the queue."""

    id: int = 0


class OutboxRows:
    """Reads and changes the outbox."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, notice: NewNotice) -> None:
        """Put a notice at the end."""
        values = {
            "event_id": notice.event_id,
            "subject": notice.subject,
            "payload": notice.payload,
            "created_at": notice.created_at,
            "request_id": notice.request_id,
        }
        self._connection.execute(insert(outbox), values)

    def list_oldest(self, limit: int) -> list[OutboxRow]:
        """The next ones to publish, in order."""
        return [
            OutboxRow(
                event_id=row.event_id,
                subject=row.subject,
                payload=row.payload,
                created_at=row.created_at,
                request_id=row.request_id,
                id=row.id,
            )
            for row in self._connection.execute(select(outbox).order_by(outbox.c.id).limit(limit))
        ]

    def holds(self, row_id: int) -> bool:
        """Whether a notice still waits."""
        return self._connection.scalar(select(outbox.c.id).where(outbox.c.id == row_id)) is not None

    def delete(self, row_id: int) -> None:
        """Forget a notice that JetStream has acked."""
        self._connection.execute(delete(outbox).where(outbox.c.id == row_id))

    def list_subjects(self) -> list[str]:
        """The subjects of those that wait."""
        return list(self._connection.scalars(select(outbox.c.subject).distinct().order_by(outbox.c.subject)))

    def list_event_ids(self, subject: str) -> list[str]:
        """The ids of those of a subject that wait."""
        return list(self._connection.scalars(select(outbox.c.event_id).where(outbox.c.subject == subject)))

    def delete_by_event_id(self, event_id: str) -> None:
        """Forget a notice that JetStream has."""
        self._connection.execute(delete(outbox).where(outbox.c.event_id == event_id))

    def count(self) -> int:
        """How many wait."""
        return self._connection.scalar(select(func.count()).select_from(outbox)) or 0
