"""Jobs on agents: the operator asks, a driver claims and reports. The broker itself starts nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.naming import get_agent
from services.broker.service.transitions import Transitions
from services.broker.store import Store, Topic, Tx
from services.broker.store.agents import AgentRow
from shared.errors import Conflict, NotFound
from shared.wire.lifecycle import ClaimRequest, ClaimResult, CreateJob, DriverEvents, Job, JobKind, JobState

MAX_LISTED = 500
# Events wake those who wait, and news of other brokers; this is for news that went missing.
POLL_SECONDS = 5.0
# Between two long polls a driver is away for a moment.
DRIVER_GRACE_SECONDS = 10.0
_ENDED = {JobState.DONE, JobState.FAILED}
_WANTED = {JobKind.START, JobKind.RESTART}
# What may follow another job instead of being refused: both end whatever is there.
_FORCIBLE = {JobKind.KILL, JobKind.DESTROY}

_log = structlog.get_logger(__name__)


class LifecycleService:
    """Keeps jobs, hands each to one driver, and takes in what drivers report.

    Args:
        store: where jobs are.
        transitions: what events do.
        clock: for times of jobs.
    """

    def __init__(self, store: Store, *, transitions: Transitions, clock: Clock) -> None:
        self._store = store
        self._transitions = transitions
        self._clock = clock
        self._changed = anyio.Event()
        self._is_closed = False
        self._claims = 0
        self._last_claim_at = -DRIVER_GRACE_SECONDS
        store.on_news(Topic.JOBS, self._hear)

    def is_driver_connected(self, seen_at: int | None) -> bool:
        """Whether a driver is waiting for jobs, or was a moment ago.

        Args:
            seen_at: when it last claimed at any broker on the database.
        """
        if self._claims > 0 or time.monotonic() - self._last_claim_at < DRIVER_GRACE_SECONDS:
            return True
        if not self._store.is_shared or seen_at is None:
            return False
        return self._clock() - seen_at < POLL_SECONDS + DRIVER_GRACE_SECONDS

    def close(self) -> None:
        """Let everybody who waits go, because the broker stops."""
        self._is_closed = True
        self._wake()

    async def create(self, name: str, request: CreateJob) -> Job:
        """Queue a job; the last one that has not ended is joined when it is of the same kind.

        Raises:
            NotFound: when there is no such agent.
            Conflict: when another job is under way, or the root agent with children is to be destroyed.
        """
        kind = request.kind
        now = self._clock()

        def work(tx: Tx) -> Job:
            agent = get_agent(tx, name)
            if kind is JobKind.DESTROY:
                _refuse_headless(tx, agent)
            joined = _admit(agent, kind, tx.jobs.list_open(agent.id))
            tx.agents.set_wanted(agent.id, wanted=kind in _WANTED)
            if joined is not None:
                return joined
            tx.on_commit(self._wake)
            tx.announce(Topic.JOBS)
            return _get_job(tx, tx.jobs.insert(kind, agent_id=agent.id, created_at=now))

        job = await self._store.write(work)
        _log.info("job_queued", job=job.id, kind=job.kind, agent=job.agent, state=job.state)
        return job

    async def get(self, job_id: int, *, wait_seconds: int) -> Job:
        """A job; waits for its end up to `wait_seconds`.

        Raises:
            NotFound: when there is none of that id.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            changed = self._changed
            job = await self._store.read(lambda tx: _get_job(tx, job_id))
            if job.state in _ENDED or not await self._wait(changed, deadline):
                return job

    async def list_jobs(self) -> list[Job]:
        """The newest 500 jobs, in order."""
        return await self._store.read(lambda tx: tx.jobs.list_newest(limit=MAX_LISTED))

    async def claim(self, request: ClaimRequest) -> ClaimResult:
        """The oldest queued job, for this driver alone; waits for one up to `wait_seconds`.

        Raises:
            Conflict: `driver_superseded`, when a later driver has claimed since.
        """
        deadline = time.monotonic() + request.wait_seconds
        with self._claiming():
            while not self._is_closed:
                changed = self._changed
                claim = partial(_claim, driver_id=request.driver_id, now=self._clock())
                job = await self._store.write(claim)
                if job is not None:
                    _log.info("job_claimed", job=job.id, kind=job.kind, agent=job.agent)
                    return ClaimResult(job=job)
                if not await self._wait(changed, deadline):
                    break
        return ClaimResult()

    async def apply(self, events: DriverEvents) -> None:
        """Apply what a driver saw, in order, all or nothing; what was applied before is skipped."""
        now = self._clock()

        def work(tx: Tx) -> None:
            for event in events.events:
                self._transitions.apply(tx, event, now=now)
            tx.on_commit(self._wake)
            tx.announce(Topic.JOBS)

        await self._store.write(work)

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            self._last_claim_at = time.monotonic()

    async def _wait(self, changed: anyio.Event, deadline: float) -> bool:
        """Wait for a change; False when there is no time left."""
        left = deadline - time.monotonic()
        if left <= 0 or self._is_closed:
            return False
        with anyio.move_on_after(min(left, POLL_SECONDS) if self._store.is_shared else left):
            await changed.wait()
        return True

    def _hear(self, _subject: int | None) -> None:
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _get_job(tx: Tx, job_id: int) -> Job:
    job = tx.jobs.find(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def _claim(tx: Tx, *, driver_id: str, now: int) -> Job | None:
    if driver_id != tx.drivers.find_current():
        if tx.drivers.is_known(driver_id):
            raise Conflict("a later driver has taken over; this one must not go on", code="driver_superseded")
        tx.drivers.take_over(driver_id, at=now)
        requeued = tx.jobs.requeue_claimed(except_of=driver_id)
        _log.info("driver_took_over", driver=driver_id, jobs_requeued=requeued)
    else:
        tx.drivers.note_seen(driver_id, at=now)
    return tx.jobs.claim_next(driver_id, at=now)


def _refuse_headless(tx: Tx, agent: AgentRow) -> None:
    """Refuse to leave agents without a root."""
    if agent.parent_id is None and (children := tx.agents.list_children(agent.id)):
        raise Conflict(
            f"{agent.name} is the root agent and has agents below it: {', '.join(children[:20])}; "
            "destroy those first",
            code="root_has_children",
        )


def _admit(agent: AgentRow, kind: JobKind, open_jobs: list[Job]) -> Job | None:
    """The job to join, or None to queue a new one; raises when neither makes sense."""
    last = next((job for job in open_jobs if job.kind is JobKind.DESTROY), None) or (
        open_jobs[-1] if open_jobs else None
    )
    if last is None or last.kind is kind:
        return last
    if kind in _FORCIBLE and last.kind is not JobKind.DESTROY:
        return None
    raise Conflict(
        f"{agent.name} has job {last.id} ({last.kind}, {last.state}) under way; wait until it has ended, "
        f"as `hivectl agent {last.kind} {agent.name}` does",
        code="job_under_way",
        details={"job": last.id, "kind": str(last.kind), "state": str(last.state)},
    )
