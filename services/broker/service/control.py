"""The control path: what happens when a daemon connects, and what its reports change."""

from __future__ import annotations

from typing import Final

import structlog

from services.broker.service.boots import adopt_boot, check_boot
from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.levels import InboxLevels
from services.broker.service.pace import Pace
from services.broker.service.revisions import Revisions
from services.broker.service.status import check_one_line, set_status
from services.broker.service.stream import ControlStream
from services.broker.service.tasks import TaskService
from services.broker.service.unknown_sends import UnknownSendLog
from services.broker.store import Store, Topic, Tx
from shared.errors import Conflict, LimitExceeded
from shared.wire.agents import Grants
from shared.wire.control import Hello, Report, Unit

# A daemon that crashes at each start connects twelve times a minute, and six times in its first seconds.
CONNECTS_AT_ONCE: Final = 30
CONNECT_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


class ControlService:
    """Opens control streams and takes reports.

    Args:
        store: where what daemons report is kept.
        hub: the open streams.
        unknown: hears of sends whose fate an agent does not know.
        revisions: hears what daemons run.
        levels: tells daemons what waits for their agents.
        tasks: hears of background tasks.
        clock: for times that a report leaves out.
    """

    def __init__(
        self,
        store: Store,
        hub: ControlHub,
        unknown: UnknownSendLog,
        *,
        revisions: Revisions,
        levels: InboxLevels,
        tasks: TaskService,
        clock: Clock,
    ) -> None:
        self._store = store
        self._hub = hub
        self._unknown = unknown
        self._revisions = revisions
        self._levels = levels
        self._tasks = tasks
        self._clock = clock
        self._connects = Pace(at_once=CONNECTS_AT_ONCE, seconds_each=CONNECT_SECONDS, clock=clock)
        self._told_to_wait: set[tuple[int, Unit]] = set()

    async def connect(self, caller: AgentCaller, hello: Hello) -> ControlStream:
        """Register a daemon; its stream begins with the grants in force. The caller must `disconnect` it.

        Raises:
            Conflict: when a later start of the same daemon has taken over.
            LimitExceeded: when this daemon connects again and again; with `retry_after_seconds`.
        """
        self._check_pace(caller, hello.unit)
        open_boot = self._hub.find_boot(caller.agent_id, hello.unit)
        if open_boot is not None and hello.boot < open_boot:
            raise superseded(caller.name, hello.unit)

        def work(tx: Tx) -> tuple[Grants, bool]:
            me = get_self(tx, caller, lock=True)
            if hello.unit == "hyperhive":
                if adopt_boot(tx, me, hello.boot, alone=open_boot is None):
                    tx.agents.set_turn_state(me.id, state=None, since=None)
                return me.grants, self._revisions.change(tx, me, hello.revision)
            return me.grants, True

        stream = ControlStream(caller.agent_id, hello)
        grants, is_told = await self._store.write(work)
        # Nothing is awaited from here on: a change committed after `work` is pushed to this stream as well.
        self._hub.add(stream)
        stream.push(grants)
        if hello.unit == "hyperhive":
            self._levels.refresh(caller.agent_id)
            self._revisions.settle(caller.agent_id, is_told=is_told)
        _log.info("daemon_connected", agent=caller.name, daemon=hello.unit, revision=hello.revision)
        return stream

    def _check_pace(self, caller: AgentCaller, unit: Unit) -> None:
        key = (caller.agent_id, unit)
        seconds = self._connects.take(key)
        if not seconds:
            self._told_to_wait.discard(key)
            return
        if key not in self._told_to_wait:
            # Once: who does not stop is not to fill the log either.
            self._told_to_wait.add(key)
            _log.warning("daemon_connects_too_fast", agent=caller.name, daemon=unit)
        raise LimitExceeded(
            f"{caller.name}'s {unit} daemon has opened its control stream {CONNECTS_AT_ONCE} times and more "
            f"within a minute; wait {seconds} s",
            code="connects_too_fast",
            details={"limit": CONNECTS_AT_ONCE, "retry_after_seconds": seconds},
        )

    def disconnect(self, caller: AgentCaller, stream: ControlStream) -> None:
        """Forget a stream that has ended."""
        self._hub.remove(stream)
        _log.info("daemon_disconnected", agent=caller.name, daemon=stream.unit)

    async def report(self, caller: AgentCaller, report: Report) -> None:
        """Take in what changed in a daemon.

        Raises:
            Conflict: from a daemon that a later start has replaced.
            InvalidInput: for a status of several lines.
        """
        self._check_current(caller, report)
        status = None if report.status_text is None else check_one_line(report.status_text)
        now = self._clock()

        def work(tx: Tx) -> None:
            me = get_self(tx, caller, lock=True)
            check_boot(me, report.boot)
            if status is not None:
                set_status(tx, me, text=status, set_at=report.status_set_at, now=now)
            if report.turn_state is not None:
                since = now if report.turn_state_since is None else min(report.turn_state_since, now)
                tx.agents.set_turn_state(me.id, state=report.turn_state, since=since)
            if report.todos is not None:
                # No report is from the future, whatever the daemon's clock says.
                tx.todos.put(me.id, report.todos.model_copy(update={"as_of": min(report.todos.as_of, now)}))

        # The agent's state is the hyperhive daemon's to tell.
        told = (status, report.turn_state, report.todos)
        if report.unit == "hyperhive" and any(one is not None for one in told):
            await self._store.write(work)
        await self._tasks.take(caller, report)
        if report.unknown_sends:
            await self._unknown.note(caller, report.unknown_sends)
        if report.grants_version is not None:
            await self._confirm(caller.agent_id, report, report.grants_version)

    def _check_current(self, caller: AgentCaller, report: Report) -> None:
        """Refuse a daemon that a later start has replaced."""
        open_boot = self._hub.find_boot(caller.agent_id, report.unit)
        if open_boot is not None and report.boot < open_boot:
            raise superseded(caller.name, report.unit)

    async def _confirm(self, agent_id: int, report: Report, version: int) -> None:
        """Note grants in force; the stream that they came down may be another broker's."""
        is_here = self._hub.confirm(agent_id, report.unit, report.boot, version)
        if is_here or not self._store.is_shared:
            return

        def work(tx: Tx) -> None:
            tx.streams.confirm(agent_id, report.unit, report.boot, version)
            tx.announce(Topic.STREAMS)
            tx.on_commit(self._hub.on_change)

        await self._store.write(work)


def superseded(agent: str, unit: Unit) -> Conflict:
    """The refusal of a daemon that a later start has replaced."""
    return Conflict(
        f"a later start of {agent}'s {unit} daemon is connected; this one must not go on",
        code="boot_superseded",
    )
