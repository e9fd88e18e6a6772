"""The `process` driver: claims jobs from the broker and gives each to its agent's runner.

Jobs of different agents run beside each other, those of one agent in order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import anyio
import anyio.abc
import structlog

from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.agent_runner import AgentRunner
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.trouble import Trouble
from shared.errors import HiveError, Unavailable
from shared.runtime.backoff import Backoff
from shared.runtime.ids import new_ulid
from shared.wire.lifecycle import ClaimRequest, Job, JobKind

CLAIM_SECONDS = 25
_FIRST_PAUSE_SECONDS = 0.25
_MAX_PAUSE_SECONDS = 5.0
_REMEMBERED = 1000

_log = structlog.get_logger(__name__)


class JobSource(Protocol):
    """The broker, as far as it matters here."""

    async def claim(self, request: ClaimRequest) -> Job | None:
        """The next job, or None when none came within the wait."""


class ProcessDriver:
    """All agents of this hive, by id."""

    def __init__(
        self, link: JobSource, console: Console, *, build_runner: Callable[[AgentRef], AgentRunner]
    ) -> None:
        self._link = link
        self._console = console
        self._build_runner = build_runner
        self._runners: dict[int, AgentRunner] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._newest_old_job = 0

    @property
    def runners(self) -> list[AgentRunner]:
        """Those that were ever asked for and not destroyed."""
        return list(self._runners.values())

    def get_runner(self, agent: AgentRef) -> AgentRunner:
        """The agent's runner, made now unless there is one."""
        if agent.agent_id not in self._runners:
            self._runners[agent.agent_id] = self._build_runner(agent)
        return self._runners[agent.agent_id]

    def note_old_jobs(self, newest_id: int) -> None:
        """Jobs up to this one were asked for before any agent ran here."""
        self._newest_old_job = newest_id

    async def run(self, jobs: anyio.abc.TaskGroup) -> None:
        """Claim until cancelled; each job runs in `jobs`."""
        driver_id = new_ulid()
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        trouble = Trouble(_log, failed="claim_failed", recovered="claims_recovered")
        while True:
            try:
                job = await self._link.claim(ClaimRequest(driver_id=driver_id, wait_seconds=CLAIM_SECONDS))
            except HiveError as exc:
                if exc.code == "driver_superseded":
                    # Two that both go on would start every agent twice.
                    _log.error("driver_superseded", reason=exc.message)
                    self._console.say(f"jobs are no longer done here: {exc.message}")
                    return
                if not isinstance(exc, Unavailable):
                    # A job may have been claimed by the answer that was lost: a new driver gets it again.
                    driver_id = new_ulid()
                trouble.note(exc.code, reason=exc.message)
                await anyio.sleep(backoff.next())
                continue
            backoff.reset()
            trouble.clear()
            # What we were given before is being done, or its end is in the spool.
            if job is not None and self._is_new(job.id):
                jobs.start_soon(self._perform, job)

    async def _perform(self, job: Job) -> None:
        _log.info("job_claimed", job=job.id, kind=job.kind, agent=job.agent)
        runner = self.get_runner(AgentRef(job.agent_id, job.agent, job.port_block))
        await runner.perform(job, is_old=job.id <= self._newest_old_job)
        if job.kind is JobKind.DESTROY:
            self._runners.pop(job.agent_id, None)

    def _is_new(self, job_id: int) -> bool:
        if job_id in self._seen:
            return False
        self._seen[job_id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True
