"""The control path: what happens when a daemon connects, and what its reports change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from services.broker.service.boots import adopt_boot, check_boot
from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.status import check_one_line, set_status
from services.broker.service.stream import ControlStream
from services.broker.store import Store, Topic, Tx
from shared.errors import Conflict
from shared.wire.agents import Grants
from shared.wire.control import Hello, Report
from shared.wire.notices import NoticeEvent

_log = structlog.get_logger(__name__)


class AppendNotice(Protocol):
    """Writes a notice into the outbox, in the transaction of the change."""

    def __call__(self, tx: Tx, *, agent: str, event: NoticeEvent, data: Mapping[str, Any]) -> None: ...


class ControlService:
    """Opens control streams and takes reports.

    Args:
        store: where what daemons report is kept.
        hub: the open streams.
        append_notice: for `revision_changed`.
        clock: for times that a report leaves out.
    """

    def __init__(self, store: Store, hub: ControlHub, *, append_notice: AppendNotice, clock: Clock) -> None:
        self._store = store
        self._hub = hub
        self._append_notice = append_notice
        self._clock = clock

    async def connect(self, caller: AgentCaller, hello: Hello) -> ControlStream:
        """Register a daemon; its stream begins with the grants in force. The caller must `disconnect` it.

        Raises:
            Conflict: when a later start of the same daemon has taken over.
        """
        open_boot = self._hub.find_boot(caller.agent_id, hello.unit)
        if open_boot is not None and hello.boot < open_boot:
            raise Conflict(
                f"a later start of {caller.name}'s {hello.unit} daemon is connected; this one must not go on",
                code="boot_superseded",
            )

        def work(tx: Tx) -> Grants:
            me = get_self(tx, caller, lock=True)
            if hello.unit == "hyperhive":
                if adopt_boot(tx, me, hello.boot, alone=open_boot is None):
                    tx.agents.set_turn_state(me.id, state=None, since=None)
                if me.revision != hello.revision:
                    tx.agents.set_revision(me.id, hello.revision)
                    if me.revision is not None:
                        change = {"agent_id": me.id, "from": me.revision, "to": hello.revision}
                        self._append_notice(
                            tx, agent=me.name, event=NoticeEvent.REVISION_CHANGED, data=change
                        )
            return me.grants

        stream = ControlStream(caller.agent_id, hello)
        grants = await self._store.write(work)
        # Nothing is awaited from here on: a change committed after `work` is pushed to this stream as well.
        self._hub.add(stream)
        stream.push(grants)
        _log.info("daemon_connected", agent=caller.name, daemon=hello.unit, revision=hello.revision)
        return stream

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

        # The agent's state is the hyperhive daemon's to tell; the others only confirm.
        if report.unit == "hyperhive" and (status is not None or report.turn_state is not None):
            await self._store.write(work)
        if report.grants_version is not None:
            await self._confirm(caller.agent_id, report, report.grants_version)

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
