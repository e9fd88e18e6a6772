"""What a driver's event does: the agent's state, a notice, a message to root, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from services.broker.service.boots import find_started_at
from services.broker.service.outcome import end_waits
from services.broker.service.system_mail import send_system_message
from services.broker.store import Topic, Tx
from services.broker.store.agents import AgentRow
from shared.wire.lifecycle import DriverEvent, DriverEventKind, ExitStatus, JobKind, JobState
from shared.wire.names import SYSTEM
from shared.wire.notices import NoticeEvent

_ENDINGS = {
    DriverEventKind.STOPPED: NoticeEvent.STOPPED,
    DriverEventKind.KILLED: NoticeEvent.KILLED,
    DriverEventKind.CRASHED: NoticeEvent.CRASHED,
}
_JOB_ENDS = {DriverEventKind.JOB_DONE: JobState.DONE, DriverEventKind.JOB_FAILED: JobState.FAILED}

_log = structlog.get_logger(__name__)


class AppendTimedNotice(Protocol):
    """Writes a notice of something that happened at a given time into the outbox."""

    def __call__(
        self, tx: Tx, *, agent: str, event: NoticeEvent, data: Mapping[str, Any], at: int | None = None
    ) -> None: ...


class Transitions:
    """Applies events, each once; one that changes nothing gives no notice.

    Args:
        append_notice: see `NoticeWriter`.
        on_destroyed: called in the event loop with the id of an agent whose end is committed.
        is_connected: whether the agent's hyperhive daemon is; called in any thread.
    """

    def __init__(
        self,
        *,
        append_notice: AppendTimedNotice,
        on_destroyed: Callable[[int], None],
        is_connected: Callable[[int], bool],
    ) -> None:
        self._append_notice = append_notice
        self._on_destroyed = on_destroyed
        self._is_connected = is_connected

    def apply(self, tx: Tx, event: DriverEvent, *, now: int) -> None:
        """Apply an event unless it was applied before. Of what is gone an event says nothing."""
        if not tx.jobs.note_event(event.event_id, at=now):
            return
        if event.kind in _JOB_ENDS:
            self._end_job(tx, event)
            return
        agent = tx.agents.find_live(event.agent_id, lock=True)
        if agent is None:
            _log.info(
                "driver_event_ignored", kind=event.kind, agent_id=event.agent_id, reason="no such agent"
            )
        elif event.kind is DriverEventKind.DESTROYED:
            self._destroy(tx, agent, event)
        elif (event.kind is DriverEventKind.STARTED) == agent.running:
            _log.info("driver_event_ignored", kind=event.kind, agent=agent.name, running=agent.running)
        elif event.kind is DriverEventKind.STARTED:
            tx.agents.set_running(agent.id, running=True)
            self._tell(tx, agent, NoticeEvent.STARTED, event)
        else:
            tx.agents.set_running(agent.id, running=False)
            if not self._has_begun_anew(agent, event, now=now):
                tx.agents.set_turn_state(agent.id, state=None, since=None)
            self._tell(tx, agent, _ENDINGS[event.kind], event)
            if event.kind is DriverEventKind.CRASHED:
                _send_crash_message(tx, agent, event)

    def _has_begun_anew(self, agent: AgentRow, event: DriverEvent, *, now: int) -> bool:
        """Whether an end that is told late is an earlier daemon's: the later one says but once how it is.

        Where the clock does not tell, as within one second, it is the later one if it is there.
        """
        if agent.boot is None:
            return False
        started_at = find_started_at(agent.boot)
        if event.at < started_at <= now:
            return True
        return started_at >= event.at and self._is_connected(agent.id)

    def _end_job(self, tx: Tx, event: DriverEvent) -> None:
        job = None if event.job_id is None else tx.jobs.find(event.job_id)
        if job is None or job.agent_id != event.agent_id:
            _log.warning("driver_event_ignored", kind=event.kind, job=event.job_id, reason="no such job")
            return
        state = _JOB_ENDS[event.kind]
        error = (event.error or "the driver gave no reason") if state is JobState.FAILED else None
        if tx.jobs.finish([job.id], state, at=event.at, error=error):
            _log.info("job_ended", job=job.id, kind=job.kind, agent=job.agent, state=state)

    def _destroy(self, tx: Tx, agent: AgentRow, event: DriverEvent) -> None:
        tx.agents.reparent_children(agent.id, to=agent.parent_id)
        tx.tokens.delete_all(agent.id)
        tx.reminders.delete_all(agent.id)
        tx.todos.delete(agent.id)
        tx.tasks.delete(agent.id)
        for schedule_id in tx.held_fires.list_schedules(agent.id):
            end_waits(tx, schedule_id, [agent.id], "gone")
        tx.held_fires.delete_all(agent.id)
        tx.schedules.cancel_all(agent.id, reason=f"{agent.name} was destroyed")
        tx.approvals.cancel_all(agent.id, at=event.at, by=SYSTEM, note=f"{agent.name} was destroyed")
        jobs = tx.jobs.list_open(agent.id)
        done = [job.id for job in jobs if job.kind is JobKind.DESTROY]
        others = [job.id for job in jobs if job.kind is not JobKind.DESTROY]
        tx.jobs.finish(done, JobState.DONE, at=event.at)
        tx.jobs.finish(others, JobState.FAILED, at=event.at, error=f"{agent.name} was destroyed")
        tx.agents.mark_destroyed(agent.id, at=event.at)
        self._tell(tx, agent, NoticeEvent.DESTROYED, event)
        tx.on_commit(lambda: self._on_destroyed(agent.id))
        tx.announce(Topic.CUT, agent.id)

    def _tell(self, tx: Tx, agent: AgentRow, notice: NoticeEvent, event: DriverEvent) -> None:
        data: dict[str, Any] = {"agent_id": agent.id}
        if notice is NoticeEvent.CRASHED and (exit_ := _describe_exit(event)):
            data["exit"] = exit_
        self._append_notice(tx, agent=agent.name, event=notice, data=data, at=event.at)
        _log.info("agent_changed", agent=agent.name, agent_id=agent.id, event_kind=notice)


def _describe_exit(event: DriverEvent) -> dict[str, int]:
    """`{"code": …}` or `{"signal": …}`; empty when nobody saw how it ended."""
    status = ExitStatus(code=event.exit_code, signal=event.exit_signal)
    return status.model_dump(exclude_none=True)


def _send_crash_message(tx: Tx, agent: AgentRow, event: DriverEvent) -> None:
    """`ContainerCrash` to the root agent, also when it was itself the one; no inbox is too full for it."""
    root = tx.agents.find_root()
    body: dict[str, Any] = {"event": "ContainerCrash", "agent": agent.name, "at": event.at}
    if exit_ := _describe_exit(event):
        body["exit"] = exit_
    send_system_message(tx, root, body, at=event.at)
