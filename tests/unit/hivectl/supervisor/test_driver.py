"""The driver claims jobs and gives each to its agent once, also when an answer of the broker was lost."""

import anyio
import anyio.abc
import pytest

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.agent_runner import AgentRunner
from services.hivectl.supervisor.console import QuietConsole
from services.hivectl.supervisor.driver import ProcessDriver
from services.hivectl.supervisor.keeper import Keeper, KeeperListener
from shared.errors import Conflict, HiveError, OutcomeUnknown, Unavailable
from shared.wire.lifecycle import ClaimRequest, Job, JobKind, JobState

pytestmark = pytest.mark.anyio


class Jobs:
    """A broker whose answers were written beforehand; after the last one it has nothing more to do."""

    def __init__(self, *answers: Job | HiveError) -> None:
        self.answers = list(answers)
        self.claimed_as: list[str] = []

    async def claim(self, request: ClaimRequest) -> Job | None:
        self.claimed_as.append(request.driver_id)
        if not self.answers:
            await anyio.sleep_forever()
        answer = self.answers.pop(0)
        if isinstance(answer, HiveError):
            raise answer
        return answer


class NoUnits:
    """Agents without surfaces: jobs on them are done at once."""

    def build_surfaces(self, agent: AgentRef, listener: KeeperListener) -> dict[str, Keeper]:
        return {}

    def close_sockets(self, agent: AgentRef, surface: str | None = None) -> None:
        pass


def end_nothing(agent: AgentRef, *, reason: str, grace_seconds: float) -> list[str]:
    return []


def build_job(number: int, kind: JobKind, agent_id: int) -> Job:
    return Job(
        id=number,
        kind=kind,
        agent=f"agent{agent_id}",
        agent_id=agent_id,
        port_block=0,
        state=JobState.CLAIMED,
        created_at=1,
    )


async def drive(spool: EventSpool, jobs: Jobs, *, until_done: int) -> ProcessDriver:
    async with anyio.create_task_group() as tasks:

        def build(agent: AgentRef) -> AgentRunner:
            return AgentRunner(
                agent,
                NoUnits(),
                spool,
                tasks,
                QuietConsole(),
                put_away=lambda _: None,
                end_tasks=end_nothing,
            )

        driver = ProcessDriver(jobs, QuietConsole(), build_runner=build)
        with anyio.fail_after(10):
            tasks.start_soon(driver.run, tasks)
            while len(done(spool)) < until_done:
                changed = anyio.Event()
                spool.on_append = changed.set
                await changed.wait()
        tasks.cancel_scope.cancel()
    return driver


def done(spool: EventSpool) -> list[int | None]:
    return [one.event.job_id for one in spool.list_oldest(100) if one.event.kind == "job_done"]


async def test_jobs_are_done_once_each(spool: EventSpool) -> None:
    jobs = Jobs(*(build_job(number, JobKind.STOP, number) for number in (1, 2, 3)))
    driver = await drive(spool, jobs, until_done=3)
    assert sorted(done(spool), key=str) == [1, 2, 3]
    assert len(set(jobs.claimed_as)) == 1
    assert len(driver.runners) == 3


async def test_after_a_lost_answer_it_claims_as_somebody_else_and_does_nothing_twice(
    spool: EventSpool,
) -> None:
    first, lost = build_job(1, JobKind.STOP, 1), build_job(2, JobKind.STOP, 1)
    jobs = Jobs(first, OutcomeUnknown("broke"), first, lost)
    await drive(spool, jobs, until_done=2)
    assert done(spool) == [1, 2]
    assert len(set(jobs.claimed_as)) == 2


async def test_a_broker_that_is_down_is_asked_again_under_the_same_name(spool: EventSpool) -> None:
    jobs = Jobs(Unavailable("down"), build_job(1, JobKind.STOP, 1))
    await drive(spool, jobs, until_done=1)
    assert len(set(jobs.claimed_as)) == 1


async def test_a_driver_that_another_one_has_replaced_claims_no_more(spool: EventSpool) -> None:
    taken_over = Conflict("a later driver has taken over", code="driver_superseded")
    jobs = Jobs(build_job(1, JobKind.STOP, 1), taken_over, build_job(2, JobKind.STOP, 1))
    driver = ProcessDriver(jobs, QuietConsole(), build_runner=lambda _: pytest.fail("not asked for"))
    jobs.answers.pop(0)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            await driver.run(tasks)
    assert len(jobs.answers) == 1


async def test_a_destroyed_agent_is_forgotten(spool: EventSpool) -> None:
    driver = await drive(spool, Jobs(build_job(1, JobKind.DESTROY, 1)), until_done=1)
    assert driver.runners == []


async def test_what_was_asked_for_before_it_began_is_known_as_old(spool: EventSpool) -> None:
    async with anyio.create_task_group() as tasks:
        performed: dict[int, bool] = {}
        seen = anyio.Event()

        class Noting(AgentRunner):
            async def perform(self, job: Job, *, is_old: bool = False) -> None:
                performed[job.id] = is_old
                if len(performed) == 2:
                    seen.set()

        def build(agent: AgentRef) -> AgentRunner:
            return Noting(
                agent,
                NoUnits(),
                spool,
                tasks,
                QuietConsole(),
                put_away=lambda _: None,
                end_tasks=end_nothing,
            )

        jobs = Jobs(build_job(7, JobKind.RESTART, 1), build_job(8, JobKind.RESTART, 1))
        driver = ProcessDriver(jobs, QuietConsole(), build_runner=build)
        driver.note_old_jobs(7)
        with anyio.fail_after(10):
            tasks.start_soon(driver.run, tasks)
            await seen.wait()
        tasks.cancel_scope.cancel()
    assert performed == {7: True, 8: False}
