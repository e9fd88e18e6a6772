"""Lifecycle jobs, which driver has them, and which of its events were applied."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from services.broker.tables import agents, driver_events, jobs
from shared.wire.lifecycle import Job, JobKind, JobState

_OPEN = (JobState.QUEUED.value, JobState.CLAIMED.value)
_ROWS = select(jobs, agents.c.name.label("agent"), agents.c.port_block).join_from(
    jobs, agents, jobs.c.agent_id == agents.c.id
)
_BY_ID = _ROWS.where(jobs.c.id == bindparam("job_id"))
_NEXT = _ROWS.where(jobs.c.state == JobState.QUEUED.value).order_by(jobs.c.id).limit(1)
_APPLIED = select(driver_events.c.event_id).where(driver_events.c.event_id == bindparam("event_id"))


class JobRows:
    """Reads and changes jobs, and the ids of driver events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, kind: JobKind, *, agent_id: int, created_at: int) -> int:
        """Queue a job; returns its id."""
        values = {
            "kind": kind.value,
            "agent_id": agent_id,
            "state": JobState.QUEUED.value,
            "created_at": created_at,
        }
        key = self._connection.execute(insert(jobs), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def find(self, job_id: int) -> Job | None:
        row = self._connection.execute(_BY_ID, {"job_id": job_id}).first()
        return None if row is None else _decode(row)

    def list_open(self, agent_id: int) -> list[Job]:
        """The agent's jobs that have not ended, in order."""
        query = _ROWS.where(jobs.c.agent_id == agent_id, jobs.c.state.in_(_OPEN)).order_by(jobs.c.id)
        return [_decode(row) for row in self._connection.execute(query)]

    def list_newest(self, *, limit: int) -> list[Job]:
        """The newest `limit` jobs, whatever became of them, in order."""
        query = _ROWS.order_by(jobs.c.id.desc()).limit(limit)
        return [_decode(row) for row in self._connection.execute(query)][::-1]

    def claim_next(self, driver_id: str, *, at: int) -> Job | None:
        """Give the oldest queued job to a driver."""
        row = self._connection.execute(_NEXT.with_for_update(of=jobs)).first()
        if row is None:
            return None
        self._connection.execute(
            update(jobs)
            .where(jobs.c.id == row.id)
            .values(state=JobState.CLAIMED.value, claimed_by=driver_id, claimed_at=at)
        )
        return self.find(row.id)

    def requeue_claimed(self, *, except_of: str) -> int:
        """Return to the queue what other drivers had claimed; says how many."""
        done = self._connection.execute(
            update(jobs)
            .where(jobs.c.state == JobState.CLAIMED.value, jobs.c.claimed_by != except_of)
            .values(state=JobState.QUEUED.value, claimed_by=None, claimed_at=None)
        )
        return done.rowcount

    def finish(self, job_ids: Collection[int], state: JobState, *, at: int, error: str | None = None) -> int:
        """End those of the jobs that have not ended yet; says how many."""
        done = self._connection.execute(
            update(jobs)
            .where(jobs.c.id.in_(job_ids), jobs.c.state.in_(_OPEN))
            .values(state=state.value, finished_at=at, error=error)
        )
        return done.rowcount

    def note_event(self, event_id: str, *, at: int) -> bool:
        """Remember a driver event as applied; False when it was already."""
        if self._connection.scalar(_APPLIED, {"event_id": event_id}) is not None:
            return False
        self._connection.execute(insert(driver_events), {"event_id": event_id, "applied_at": at})
        return True

    def delete_events_before(self, at: int, *, limit: int) -> int:
        """Forget up to `limit` events applied before `at`; returns how many."""
        old = (
            select(driver_events.c.event_id)
            .where(driver_events.c.applied_at < at)
            .order_by(driver_events.c.applied_at)
            .limit(limit)
        )
        ids = list(self._connection.scalars(old))
        self._connection.execute(delete(driver_events).where(driver_events.c.event_id.in_(ids)))
        return len(ids)


def _decode(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        agent=row.agent,
        agent_id=row.agent_id,
        port_block=row.port_block,
        state=JobState(row.state),
        created_at=row.created_at,
        finished_at=row.finished_at,
        error=row.error,
    )
