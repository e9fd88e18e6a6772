"""The life of a hive on one machine: brought up in order, watched, brought down in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from services.hivectl.hive_file import read_secret
from services.hivectl.provision import archive_agent
from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.agent_runner import AgentRunner
from services.hivectl.supervisor.bring_up import BringUp, StartReport
from services.hivectl.supervisor.broker_link import BrokerLink
from services.hivectl.supervisor.children import ChildRegister
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.driver import ProcessDriver
from services.hivectl.supervisor.environment import base_environment
from services.hivectl.supervisor.fork_server.client import ForkServer
from services.hivectl.supervisor.infrastructure import Infrastructure
from services.hivectl.supervisor.listeners import Listeners
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.orphans import OrphanReaper, become_subreaper
from services.hivectl.supervisor.sender import EventSender
from services.hivectl.supervisor.task_end import end_tasks
from services.hivectl.supervisor.units import HivePlan, Units
from shared.errors import HiveError
from shared.runtime.ids import new_ulid

FLUSH_SECONDS = 10.0
_POLL_SECONDS = 0.1
_ROTATE_EVERY_SECONDS = 30.0

_log = structlog.get_logger(__name__)


class Hive:
    """One run of the supervisor.

    Args:
        plan: what to run.
        listeners: with the sockets that were bound before anything was started.
        spool: what an earlier run may not have told the broker yet.
        console: whom to tell how it goes.
        on_up: called once, when everything that is wanted runs; with what did not come up.
        on_stopping: called once, when the first signal has come.
    """

    def __init__(
        self,
        plan: HivePlan,
        listeners: Listeners,
        spool: EventSpool,
        console: Console,
        *,
        on_up: Callable[[StartReport], None],
        on_stopping: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._listeners = listeners
        self._spool = spool
        self._console = console
        self._on_up = on_up
        self._on_stopping = on_stopping
        self._children = ChildRegister(plan.layout)
        self._reaper = OrphanReaper(self._children.has)
        self._fork_server = self._build_fork_server()
        self._units = Units(plan, listeners, self._children, self._fork_server)
        self._polite = anyio.CancelScope()
        self._work = anyio.CancelScope()

    async def run(self, agents: Sequence[str]) -> None:
        """Run until a signal; `agents` are made and started besides those that are wanted already.

        Raises:
            HiveError: when NATS, the broker or the agents' files did not come up; all is down again then.
        """
        url = f"http://127.0.0.1:{self._plan.settings.ports.broker}"
        token_file = self._plan.layout.operator_token_file
        failure: HiveError | None = None
        async with (
            BrokerLink(url, lambda: read_secret(token_file)) as link,
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(self._watch_signals)
            tasks.start_soon(self._rotate_logs)
            tasks.start_soon(self._children.run)
            if self._fork_server is not None:
                await tasks.start(self._reaper.run)
                tasks.start_soon(self._fork_server.run, tasks)
            sender = EventSender(self._spool, link, driver_id=new_ulid())
            core = Infrastructure(self._units, tasks, self._console)
            driver = ProcessDriver(link, self._console, build_runner=partial(self._build_runner, tasks))
            try:
                with self._work:
                    bring_up = BringUp(
                        plan=self._plan,
                        link=link,
                        sender=sender,
                        core=core,
                        driver=driver,
                        spool=self._spool,
                        console=self._console,
                    )
                    await self._live(bring_up, driver, agents, tasks)
            except HiveError as exc:
                failure = exc
            finally:
                with anyio.CancelScope(shield=True):
                    await self._bring_down(link, sender, core, driver)
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _live(
        self,
        bring_up: BringUp,
        driver: ProcessDriver,
        agents: Sequence[str],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        await bring_up.start_core(tasks)
        wanted = await bring_up.settle_agents(agents)
        async with anyio.create_task_group() as jobs:
            jobs.start_soon(driver.run, jobs)
            self._on_up(await bring_up.start_agents(wanted))
            await anyio.sleep_forever()

    async def _bring_down(
        self, link: BrokerLink, sender: EventSender, core: Infrastructure, driver: ProcessDriver
    ) -> None:
        with self._polite:
            async with anyio.create_task_group() as stopping:
                for runner in driver.runners:
                    stopping.start_soon(self._stop_agent, runner)
            if core.broker_ready:
                with anyio.move_on_after(FLUSH_SECONDS):
                    await sender.wait_empty()
                    await self._wait_for_notices(link)
            await core.stop()
        for runner in driver.runners:
            await runner.shut_down(at_once=True)
        await core.stop(at_once=True)
        if self._fork_server is not None:
            await self._fork_server.stop()
        self._listeners.close_all()

    async def _stop_agent(self, runner: AgentRunner) -> None:
        await runner.shut_down()
        self._console.say(f"{runner.agent.name:<20} stopped")

    async def _wait_for_notices(self, link: BrokerLink) -> None:
        """Let the last notices out; without NATS they wait in the broker's outbox for the next start."""
        try:
            while (hive := await link.get_hive()).nats_connected and hive.notices_waiting:  # noqa: ASYNC110
                await anyio.sleep(_POLL_SECONDS)
        except HiveError as exc:
            _log.warning("notices_not_awaited", code=exc.code)

    def _build_fork_server(self) -> ForkServer | None:
        """None where the kernel cannot make forked units children of ours; each is a program then."""
        if not become_subreaper():
            return None
        layout = self._plan.layout
        return ForkServer(
            LogFile(layout.logs_dir / "fork-server.log"),
            base_environment(self._plan.caller),
            layout.root,
            adopt=self._children.add,
            hold=self._reaper.hold,
        )

    def _build_runner(self, tasks: anyio.abc.TaskGroup, agent: AgentRef) -> AgentRunner:
        return AgentRunner(
            agent,
            self._units,
            self._spool,
            tasks,
            self._console,
            put_away=self._put_away,
            end_tasks=self._end_tasks,
        )

    def _put_away(self, agent: AgentRef) -> None:
        archive_agent(self._plan.layout, agent.name, agent.agent_id)

    def _end_tasks(self, agent: AgentRef, *, reason: str, grace_seconds: float) -> Sequence[str]:
        return end_tasks(self._plan.layout, agent.name, reason=reason, grace_seconds=grace_seconds)

    async def _watch_signals(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """The first signal brings the hive down in order, the second one at once."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if not self._work.cancel_called:
                    _log.info("stopping", signal=number.name)
                    self._on_stopping()
                    self._console.say("stopping; once more ends everything at once")
                    self._work.cancel()
                else:
                    _log.warning("ending_at_once", signal=number.name)
                    self._console.say("ending everything at once")
                    self._polite.cancel()

    async def _rotate_logs(self) -> None:
        while True:
            await anyio.sleep(_ROTATE_EVERY_SECONDS)
            for path in self._plan.layout.logs_dir.glob("*.log"):
                try:
                    LogFile(path).rotate()
                except OSError as exc:
                    _log.warning("log_not_rotated", path=str(path), reason=exc.strerror)
