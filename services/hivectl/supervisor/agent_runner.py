"""One agent's processes: performs its jobs one after the other, and writes down what becomes of it.

The agent is its `hyperhive` surface: that one's end without a job is a crash, any other surface's a warning.
Its tasks outlive its surfaces, and end with a job that ends the agent, or with the hive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef, AgentUnits, EndTasks
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.keeper import Keeper, Outcome, UnitExit
from shared.errors import HiveError
from shared.wire.lifecycle import DriverEventKind, ExitStatus, Job, JobKind

READY_SECONDS = 30.0
# Longer than the 120 s that an agent has to end its turn gracefully.
STOP_SECONDS = 130.0
# From SIGTERM to SIGKILL, for what the agent's tasks are running.
TASK_GRACE_SECONDS = 5.0
_MAX_REASON_CHARACTERS = 1800

# What ends an agent whatever else is being done with it.
_AT_ONCE = frozenset({JobKind.KILL, JobKind.DESTROY})

_log = structlog.get_logger(__name__)


class AgentRunner:
    """Jobs of one agent.

    Args:
        tasks: where its units' keepers live.
        put_away: moves the files of a destroyed agent out of the way.
        end_tasks: ends its background tasks, once its surfaces are down.
    """

    def __init__(
        self,
        agent: AgentRef,
        units: AgentUnits,
        spool: EventSpool,
        tasks: anyio.abc.TaskGroup,
        console: Console,
        *,
        put_away: Callable[[AgentRef], None],
        end_tasks: EndTasks,
        ready_seconds: float = READY_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.agent = agent
        self._units = units
        self._spool = spool
        self._tasks = tasks
        self._console = console
        self._put_away = put_away
        self._end_tasks = end_tasks
        self._ready_seconds = ready_seconds
        self._stop_seconds = stop_seconds
        self._lock = anyio.Lock()
        self._keepers: dict[str, Keeper] = {}
        self._running = False
        self._is_stopping = False
        # While a start waits for all surfaces; later the agent's own is enough.
        self._is_patient = False
        self._starting = anyio.CancelScope()
        self._hurried_by: set[JobKind] = set()
        self._ended_untold = False
        self._interrupted: list[Job] = []

    async def perform(self, job: Job, *, is_old: bool = False) -> None:
        """Do a job and report its end. Repeating one that is done changes nothing and is done.

        Args:
            job: what to do.
            is_old: whether it was asked for before this supervisor began. A restart is then a start: no
                process from before is left.
        """
        if job.kind in _AT_ONCE:
            self._hurry(job.kind)
        kind = JobKind.START if is_old and job.kind is JobKind.RESTART else job.kind
        try:
            await self._perform(job, kind)
        except anyio.get_cancelled_exc_class():
            self._interrupted.append(job)
            if JobKind.DESTROY in self._hurried_by:
                # It has cut another job short, and is not going to say how that one ended.
                self._hurried_by.add(JobKind.KILL)
            raise

    async def _perform(self, job: Job, kind: JobKind) -> None:
        async with self._lock:
            try:
                # What needs no patience is not left half done when the hive goes down.
                with anyio.CancelScope(shield=kind in _AT_ONCE):
                    await self._do(kind)
            except HiveError as exc:
                _log.warning("job_failed", job=job.id, kind=job.kind, agent=job.agent, code=exc.code)
                self._emit(DriverEventKind.JOB_FAILED, job_id=job.id, error=exc.message)
            except Exception:  # noqa: BLE001 - a bug in one agent's job must not end all the others
                _log.exception("job_broke", job=job.id, kind=job.kind, agent=job.agent)
                error = "the supervisor has a bug; its log says more"
                self._emit(DriverEventKind.JOB_FAILED, job_id=job.id, error=error)
            else:
                _log.info("job_done", job=job.id, kind=job.kind, agent=job.agent)
                self._emit(DriverEventKind.JOB_DONE, job_id=job.id)

    async def bring_up(self) -> None:
        """Start it because it is wanted.

        Raises:
            HiveError: when it was not ready in time; it is tried again all the same.
        """
        async with self._lock:
            # A job may have been quicker.
            if not self._running:
                await self._start()

    async def shut_down(self, *, at_once: bool = False) -> None:
        """Stop it because the hive goes down; it stays wanted. Jobs that this cuts off end with it."""
        async with self._lock:
            grace_seconds = 0 if at_once else self._stop_seconds
            await self._end(DriverEventKind.STOPPED, grace_seconds=grace_seconds, reason="the hive went down")
            if self._ended_untold:
                self._ended_untold = False
                self._emit(DriverEventKind.KILLED)
            while self._interrupted:
                self._end_interrupted(self._interrupted.pop(0))

    def unit_ready(self, name: str, seconds: float) -> None:
        """Part of `KeeperListener`."""
        _log.info("unit_ready", name=name, seconds=round(seconds, 3))
        self._console.say(f"{name:<20} ready {seconds:.1f} s")
        self._note_started()

    def unit_exited(self, name: str, exit_: UnitExit) -> None:
        """Part of `KeeperListener`."""
        surfaces = [surface for surface, keeper in self._keepers.items() if keeper.name == name]
        is_agent = next(iter(self._keepers), None) in surfaces
        say = _log.error if is_agent else _log.warning
        say("unit_exited", name=name, **exit_.status.model_dump(), restart_in=exit_.restart_in)
        self._console.say(f"{name:<20} {exit_.describe()}")
        if exit_.restart_in is None:
            # Nobody is going to answer: a refused connection is the truth.
            for surface in surfaces:
                self._units.close_sockets(self.agent, surface)
        if self._running and is_agent:
            self._running = False
            self._emit(DriverEventKind.CRASHED, exit_=exit_.status)
        self._note_started()

    def _note_started(self) -> None:
        """It runs when its own surface answers; a start waits for the others as long as it is patient."""
        # One that is being ended has come too late.
        if self._running or self._is_stopping or not self._keepers:
            return
        own, *others = self._keepers.values()
        is_complete = all(keeper.ready or keeper.stays_down for keeper in others)
        if own.ready and (is_complete or not self._is_patient):
            self._running = True
            self._emit(DriverEventKind.STARTED)

    async def _do(self, kind: JobKind) -> None:
        if kind is JobKind.START:
            if not self._running:
                await self._start()
        elif kind is JobKind.STOP:
            reason = "the agent was stopped"
            await self._end(DriverEventKind.STOPPED, grace_seconds=self._stop_seconds, reason=reason)
        elif kind is JobKind.KILL:
            await self._end(DriverEventKind.KILLED, grace_seconds=0, reason="the agent was killed")
        elif kind is JobKind.RESTART:
            # The sockets stay: calls that come meanwhile wait for the next process. So do the tasks.
            if await self._stop_units(DriverEventKind.STOPPED, grace_seconds=self._stop_seconds):
                raise self._superseded()
            await self._start()
        else:
            await self._destroy()

    async def _destroy(self) -> None:
        was_running = self._running or self._ended_untold
        await self._end(None, grace_seconds=0, reason="the agent was destroyed")
        try:
            await anyio.to_thread.run_sync(self._put_away, self.agent)
        except HiveError:
            # It still exists, and it is the job's failure that it does; but its processes are gone.
            if was_running:
                self._emit(DriverEventKind.KILLED)
            raise
        finally:
            self._ended_untold = False
        self._emit(DriverEventKind.DESTROYED)

    def _end_interrupted(self, job: Job) -> None:
        """Say what became of a job that the hive's end cut off; a destruction is done by the next hive."""
        if job.kind in {JobKind.STOP, JobKind.KILL}:
            self._emit(DriverEventKind.JOB_DONE, job_id=job.id)
        elif job.kind in {JobKind.START, JobKind.RESTART}:
            error = f"the hive went down meanwhile; the next `hivectl up` starts {self.agent.name}"
            self._emit(DriverEventKind.JOB_FAILED, job_id=job.id, error=error)

    async def _start(self) -> None:
        """Start it. One that does not come up is tried on and on: it is wanted, whoever asked for it."""
        if await self._stop_units(None, grace_seconds=0):
            raise self._superseded()
        keepers = self._keepers = self._units.build_surfaces(self.agent, self)
        outcomes: dict[str, Outcome] = {}

        async def start(surface: str, keeper: Keeper) -> None:
            outcomes[surface] = await keeper.start(self._tasks, timeout_seconds=self._ready_seconds)

        self._is_patient = True
        try:
            with anyio.CancelScope() as self._starting:
                async with anyio.create_task_group() as starting:
                    for surface, keeper in keepers.items():
                        starting.start_soon(start, surface, keeper)
        finally:
            self._is_patient = False
        if self._starting.cancelled_caught:
            raise self._superseded()
        self._note_started()
        failed = [keepers[surface] for surface, how in outcomes.items() if how is not Outcome.READY]
        if failed:
            reason = "; ".join(keeper.explain(self._ready_seconds) for keeper in failed)
            reason = f"{reason[:_MAX_REASON_CHARACTERS]}\n{self._foretell(failed)}"
            raise HiveError(reason, code="start_failed")

    def _foretell(self, failed: list[Keeper]) -> str:
        """What becomes of an agent that did not start, for people."""
        name = self.agent.name
        has_bad_settings = any(keeper.has_bad_settings for keeper in failed)
        if self._running and has_bad_settings:
            return f"{name} runs without it; once that is mended, `hivectl agent restart {name}` brings it up"
        if self._running:
            return f"{name} runs without it, and it is tried again until it comes up"
        if has_bad_settings:
            return f"{name} stays down: mend that, then `hivectl agent start {name}`"
        return f"{name} is tried again until it comes up; `hivectl agent stop {name}` ends that"

    def _superseded(self) -> HiveError:
        return HiveError(f"{self.agent.name} was ended at once meanwhile", code="superseded")

    async def _end(self, kind: DriverEventKind | None, *, grace_seconds: float, reason: str) -> None:
        hurried_by = await self._stop_units(kind, grace_seconds=grace_seconds)
        self._units.close_sockets(self.agent)
        task_seconds = 0.0 if hurried_by else min(grace_seconds, TASK_GRACE_SECONDS)
        end = partial(self._end_tasks, self.agent, reason=reason, grace_seconds=task_seconds)
        survivors = await anyio.to_thread.run_sync(end)
        if survivors:
            _log.error("tasks_survived", agent=self.agent, survivors=survivors)
            self._console.say(f"{self.agent.name:<20} could not end {'; '.join(survivors)}")

    def _hurry(self, kind: JobKind) -> None:
        """Let the job that holds us up wait no longer for a unit to end, or to become ready."""
        if not self._lock.locked():
            return
        self._hurried_by.add(kind)
        self._starting.cancel()
        if self._is_stopping:
            for keeper in self._keepers.values():
                keeper.kill_now()

    async def _stop_units(self, kind: DriverEventKind | None, *, grace_seconds: float) -> frozenset[JobKind]:
        """Stop what there is, and report it as `kind`; answers which later jobs have cut that short."""
        self._is_stopping = True
        patience_seconds = 0 if self._hurried_by else grace_seconds
        try:
            async with anyio.create_task_group() as stopping:
                for keeper in self._keepers.values():
                    stopping.start_soon(partial(keeper.stop, grace_seconds=patience_seconds))
        finally:
            self._is_stopping = False
        was_running, self._running, self._keepers = self._running, False, {}
        hurried_by, self._hurried_by = frozenset(self._hurried_by), set()
        if was_running and kind is not None:
            if hurried_by == {JobKind.DESTROY}:
                # That one reports how it ended, and nothing else is to be heard of it.
                self._ended_untold = True
            else:
                self._emit(DriverEventKind.KILLED if hurried_by else kind)
        return hurried_by

    def _emit(
        self,
        kind: DriverEventKind,
        *,
        job_id: int | None = None,
        exit_: ExitStatus | None = None,
        error: str | None = None,
    ) -> None:
        self._spool.append(kind, self.agent.agent_id, job_id=job_id, exit_=exit_, error=error)
