"""A broker killed under two hundred long polls and sixty control streams: all are back, with few attempts.

Who waits is what an operator and a hive really run: `hivectl`'s wait for a job, the supervisor's driver, each
daemon's control link. How their attempts scatter is proved by the tests of `shared/runtime/backoff.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
import pytest

from services.hivectl.client import OperatorClient
from services.hivectl.job import wait_for_job
from services.hivectl.session import Session
from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.agent_runner import AgentRunner
from services.hivectl.supervisor.broker_link import BrokerLink
from services.hivectl.supervisor.console import QuietConsole
from services.hivectl.supervisor.driver import ProcessDriver
from services.hivectl.supervisor.keeper import Keeper, KeeperListener
from services.hivectl.supervisor.sender import EventSender
from shared.client import BrokerClient
from shared.daemon.control import ControlLink
from shared.errors import Unavailable
from shared.runtime.credential import TokenFile
from shared.runtime.ids import new_ulid
from shared.wire.agents import Grants
from shared.wire.control import ControlEvent, Hello, Report
from shared.wire.lifecycle import Job, JobKind, JobState
from tests.support.access import AgentAccess
from tests.support.units import BROKER_MODULE, Units, running_units
from tests.support.waiting import eventually

STREAMS, POLLS, POLLS_A_CLIENT = 60, 200, 50


class Dialler(BrokerClient):
    """A daemon's client that counts how often it dials."""

    dials = 0

    async def control(self, hello: Hello) -> AsyncGenerator[ControlEvent, None]:
        self.dials += 1
        async with aclosing(super().control(hello)) as events:
            async for event in events:
                yield event


class Asker(OperatorClient):
    """hivectl's client, which counts the requests that are out, and those that it asked in vain."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        # Many threads ask at once, and appending is one step.
        self.out: list[str] = []
        self.refused: list[int] = []
        self._http.event_hooks = {"request": [self._follow]}

    def get_job(self, job_id: int, *, wait_seconds: int = 0) -> Job:
        try:
            return super().get_job(job_id, wait_seconds=wait_seconds)
        except Unavailable:
            self.refused.append(job_id)
            raise

    def _follow(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._trace}

    def _trace(self, event: str, _info: object) -> None:
        if event.endswith("receive_response_headers.started"):
            self.out.append(event)


class NoUnits:
    """Agents without surfaces."""

    def build_surfaces(self, agent: AgentRef, listener: KeeperListener) -> dict[str, Keeper]:
        return {}

    def close_sockets(self, agent: AgentRef, surface: str | None = None) -> None:
        pass


def end_nothing(agent: AgentRef, *, reason: str, grace_seconds: float) -> list[str]:
    return []


class PatientRunner(AgentRunner):
    """Does its jobs when the test says so."""

    gate: anyio.Event

    async def perform(self, job: Job, *, is_old: bool = False) -> None:
        await self.gate.wait()
        await super().perform(job, is_old=is_old)


@pytest.fixture
def units() -> Iterator[Units]:
    with running_units(preload=BROKER_MODULE) as running:
        for number in range(STREAMS):
            running.enlist(f"agent-{number}", parent=None if number == 0 else "agent-0")
        yield running


@pytest.mark.requirement("restart.herd", "restart.broker")
async def test_all_long_polls_and_streams_come_back_by_themselves(units: Units) -> None:
    gate = anyio.Event()
    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            links = [
                await stack.enter_async_context(dialling(tasks, agent)) for agent in units.agents.values()
            ]
            await stack.enter_async_context(driving(units, tasks, gate))
            await until(lambda: count_connected(units) == STREAMS)
            first = await start_job(units, "agent-1")
            askers = [Asker(units.broker.url, units.operator.token) for _ in range(POLLS // POLLS_A_CLIENT)]
            for asker in askers:
                stack.callback(asker.__exit__, None, None, None)
            async with anyio.create_task_group() as polls:
                ended: list[JobState] = []
                for asker in askers:
                    for _ in range(POLLS_A_CLIENT):
                        polls.start_soon(wait_in_thread, asker, first, ended)
                await until(lambda: sum(len(asker.out) for asker in askers) >= POLLS)
                # Connections are accepted in their order: when this one is answered, all of them have been.
                await until(lambda: count_connected(units) == STREAMS)

                await anyio.to_thread.run_sync(units.broker.restart)

                await until(lambda: count_connected(units) == STREAMS)
                # The driver's claim is back too: it gets what is asked for now.
                await start_job(units, "agent-2")
                gate.set()
            assert ended == [JobState.DONE] * POLLS
            # Each came back with one attempt, or two where the first met the end of the old broker.
            assert {link.dials for link in links} <= {2, 3}
            assert POLLS <= sum(len(asker.refused) for asker in askers) <= 2 * POLLS
            tasks.cancel_scope.cancel()


def count_connected(units: Units) -> int:
    agents = units.operator.json("GET", "/agents")
    return Counter(agent["connected_units"] == ["hyperhive"] for agent in agents)[True]


async def start_job(units: Units, agent: str) -> Job:
    """Ask for a job and wait until the driver has claimed it."""
    made = units.operator.json("POST", f"/agents/{agent}/jobs", {"kind": JobKind.STOP})

    def state() -> str:
        return str(units.operator.json("GET", f"/jobs/{made['id']}")["state"])

    await until(lambda: state() == JobState.CLAIMED)
    return Job.model_validate(made)


async def wait_in_thread(asker: Asker, job: Job, ended: list[JobState]) -> None:
    wait = partial(wait_for_job, Session(as_json=True), asker, job)
    ended.append((await anyio.to_thread.run_sync(wait, limiter=THREADS)).state)


THREADS = anyio.CapacityLimiter(POLLS)


@asynccontextmanager
async def dialling(tasks: anyio.abc.TaskGroup, agent: AgentAccess) -> AsyncIterator[Dialler]:
    """The control link of a daemon."""
    boot = new_ulid()

    async def ignore(_: Grants | None = None) -> None:
        pass

    async with Dialler(agent.broker_url, TokenFile(agent.token_file), unit="hyperhive", boot=boot) as client:
        link = ControlLink(
            client,
            hello=Hello(unit="hyperhive", boot=boot, revision="1.0"),
            on_grants=ignore,
            describe=lambda: Report(unit="hyperhive", boot=boot),
            on_connect=ignore,
        )
        tasks.start_soon(link.run)
        yield client


@asynccontextmanager
async def driving(units: Units, tasks: anyio.abc.TaskGroup, gate: anyio.Event) -> AsyncIterator[None]:
    """The supervisor's driver, for agents that have no processes."""
    spool = EventSpool(units.layout.root / "spool.sqlite")
    token = units.operator.token

    def build(agent: AgentRef) -> AgentRunner:
        runner = PatientRunner(
            agent,
            NoUnits(),
            spool,
            tasks,
            QuietConsole(),
            put_away=lambda _: None,
            end_tasks=end_nothing,
        )
        runner.gate = gate
        return runner

    async with BrokerLink(units.broker.url, lambda: token) as link:
        tasks.start_soon(EventSender(spool, link, driver_id=new_ulid()).run)
        tasks.start_soon(ProcessDriver(link, QuietConsole(), build_runner=build).run, tasks)
        yield
    spool.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what announces itself by no event; asked in a thread, for it may wait for the broker."""
    await anyio.to_thread.run_sync(partial(eventually, condition, within=30))
