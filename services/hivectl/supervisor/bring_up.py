"""How a hive comes up: NATS and broker, what happened before, agents' files, agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from services.hivectl.client import OperatorClient
from services.hivectl.hive_file import read_secret
from services.hivectl.provision import DEFAULT_READER, add_agent, ensure_agents, list_blocks, list_readers
from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.broker_link import BrokerLink
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.driver import ProcessDriver
from services.hivectl.supervisor.infrastructure import Infrastructure
from services.hivectl.supervisor.sender import EventSender
from services.hivectl.supervisor.units import HivePlan
from shared.errors import Conflict, HiveError, Misconfigured, Unavailable
from shared.wire.agents import Agent
from shared.wire.lifecycle import DriverEventKind, Job, JobKind, JobState
from shared.wire.names import ROOT_AGENT

SPOOL_SECONDS = 20.0
READER_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
# More at once only make each other late on a small machine.
_STARTS_AT_ONCE = 8

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StartReport:
    """Which agents run, and for what does not run one text each: what, and why not."""

    running: tuple[str, ...]
    failed: tuple[str, ...] = ()


class BringUp:
    """Three steps, to be taken in order."""

    def __init__(
        self,
        *,
        plan: HivePlan,
        link: BrokerLink,
        sender: EventSender,
        core: Infrastructure,
        driver: ProcessDriver,
        spool: EventSpool,
        console: Console,
    ) -> None:
        self._plan = plan
        self._link = link
        self._sender = sender
        self._core = core
        self._driver = driver
        self._spool = spool
        self._console = console
        self._failed: list[str] = []

    async def start_core(self, tasks: anyio.abc.TaskGroup) -> None:
        """Start NATS and the broker, tell the broker what it does not know, have it know the readers.

        Raises:
            HiveError: when the broker does not come up, or does not take what it is told.
        """
        trouble = await self._core.start()
        if trouble is not None:
            _log.error("nats_not_started", reason=trouble)
            self._failed.append(
                f"{trouble}\nnotices wait until it is there; `hivectl doctor` says how it stands"
            )
        tasks.start_soon(self._sender.run)
        await self._wait_told()
        for agent in await self._link.list_agents():
            if agent.running:
                # Its processes ended with an earlier supervisor, and nobody saw how.
                self._spool.append(DriverEventKind.CRASHED, agent.id)
        await self._wait_told()
        # Read before anything is started, so that what runs is younger than all of these.
        self._driver.note_old_jobs(max((job.id for job in await self._link.list_jobs()), default=0))
        tasks.start_soon(self._grant_readers)

    async def settle_agents(self, names: Sequence[str]) -> list[Agent]:
        """Make the agents that are missing, and complete the files of all; answers with those to start.

        One whose files are damaged keeps no other from starting.
        """
        agents, damaged = await anyio.to_thread.run_sync(self._settle_files, names)
        wanted = [agent for agent in agents if agent.wanted or agent.name in names]
        for name, exc in damaged.items():
            _log.error("agent_files_damaged", agent=name, code=exc.code, reason=exc.message)
            # Of one that was to stay down nobody asked.
            if name in names or any(agent.name == name for agent in wanted):
                self._failed.append(f"{name} did not start: {exc.message}")
        wanted = [agent for agent in wanted if agent.name not in damaged]
        # All sockets were bound at the start; of an agent that stays down, a refused connection is the truth.
        held = {agent.port_block for agent in wanted}
        blocks = list_blocks(self._plan.layout, self._plan.settings.ports)
        for block in {*blocks.values(), *(agent.port_block for agent in agents)} - held:
            self._core.close_sockets(block)
        return wanted

    async def start_agents(self, agents: Sequence[Agent]) -> StartReport:
        """Start them beside each other, and say how that went."""
        running: list[str] = []
        failed = self._failed
        limiter = anyio.CapacityLimiter(_STARTS_AT_ONCE)

        async def start(agent: Agent) -> None:
            async with limiter:
                try:
                    await self._start_agent(agent)
                    running.append(agent.name)
                except HiveError as exc:
                    _log.error("agent_not_started", agent=agent.name, code=exc.code)
                    failed.append(f"{agent.name} did not start: {exc.message}")

        async with anyio.create_task_group() as starting:
            for agent in agents:
                starting.start_soon(start, agent)
        return StartReport(tuple(sorted(running)), tuple(failed))

    async def _start_agent(self, agent: Agent) -> None:
        if agent.wanted:
            await self._driver.get_runner(AgentRef(agent.id, agent.name, agent.port_block)).bring_up()
            return
        # Stopped by the operator, now asked for by name: a job has the broker know that it is wanted.
        job = await self._link.wait_for_job((await self._ask_for_start(agent.name)).id)
        if job.state is JobState.FAILED:
            raise HiveError(job.error or "the driver gave no reason", code="job_failed")

    async def _ask_for_start(self, name: str) -> Job:
        """A start, after what the operator had asked for before; the driver is at work on that."""
        while True:
            try:
                return await self._link.create_job(name, JobKind.START)
            except Conflict as exc:
                under_way = exc.details.get("job")
                if exc.code != "job_under_way" or not isinstance(under_way, int):
                    raise
                await self._link.wait_for_job(under_way)

    def _settle_files(self, names: Sequence[str]) -> tuple[list[Agent], dict[str, HiveError]]:
        """All agents, and what is wrong with the files of some."""
        layout, ports = self._plan.layout, self._plan.settings.ports
        token = read_secret(layout.operator_token_file)
        with OperatorClient(f"http://127.0.0.1:{ports.broker}", token) as client:
            known = client.list_agents()
            damaged = ensure_agents(layout, client, ports, known)
            first = [] if any(agent.parent is None for agent in known) else [ROOT_AGENT]
            taken = {agent.name for agent in known}
            for name in dict.fromkeys([*first, *names]):
                if name in taken:
                    continue
                try:
                    add_agent(layout, client, ports, name)
                except Misconfigured as exc:
                    # Without a root agent the next one would become it.
                    if name in first:
                        raise
                    damaged[name] = exc
            return client.list_agents(), damaged

    async def _wait_told(self) -> None:
        with anyio.move_on_after(SPOOL_SECONDS) as scope:
            await self._sender.wait_empty()
        if scope.cancelled_caught:
            raise Unavailable(
                f"the broker does not take what the supervisor reports; see {self._plan.layout.logs_dir}"
            )

    async def _grant_readers(self) -> None:
        """Have the broker keep a durable for all who have a credential; it needs NATS, which may be late.

        The files are what counts: a database that was restored from a backup may not know the latest readers.
        """
        reason = "it has no connection to NATS yet"
        missing = list(dict.fromkeys([DEFAULT_READER, *list_readers(self._plan.layout)]))
        with anyio.move_on_after(READER_SECONDS):
            while True:
                try:
                    missing = [name for name in missing if not (await self._link.grant_reader(name)).ready]
                    if not missing:
                        return
                except HiveError as exc:
                    reason = exc.message
                await anyio.sleep(_PAUSE_SECONDS)
        _log.warning("readers_not_ready", readers=missing, reason=reason)
        self._console.say("notices: the broker has no NATS yet; it makes the readers' durables when it has")
