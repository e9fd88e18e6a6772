"""Background tasks for the operator: what surfaces last reported, and the wish to end one.

A wish goes down the surface's control stream, at this broker or another one on the same database, and counts
only while somebody waits for the answer: one that comes too late must not end anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.naming import get_agent
from services.broker.store import Store, Topic, Tx
from services.broker.store.tasks import KillRow, MirrorRow
from shared.errors import HiveError, NotFound
from shared.wire.control import Report
from shared.wire.tasks import TASK_SURFACES, KillOutcome, Task, TaskKill, TaskPage, TaskSurface

ANSWER_SECONDS: Final = 5.0
# A broker that hears of a wish later than that leaves it.
FRESH_SECONDS: Final = 5

_log = structlog.get_logger(__name__)


class TaskService:
    """Run `run` in a task; it ends at once where no database is shared.

    Args:
        store: where reports and wishes are.
        hub: the open streams.
        clock: for when things were asked for.
        answer_seconds: how long a wish waits for the surface.
    """

    def __init__(
        self, store: Store, hub: ControlHub, *, clock: Clock, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._answered = anyio.Event()
        self._asked_elsewhere = anyio.Event()
        store.on_news(Topic.KILLS, self._hear)

    async def take(self, caller: AgentCaller, report: Report) -> None:
        """Take in what a report says of tasks; only surfaces that run tasks have something to say."""
        if report.unit not in TASK_SURFACES or (report.tasks is None and not report.kills):
            return
        now = self._clock()

        def work(tx: Tx) -> None:
            me = get_self(tx, caller, lock=True)
            if report.tasks is not None:
                # No report is from the future, whatever the daemon's clock says.
                mirror = report.tasks.model_copy(update={"as_of": min(report.tasks.as_of, now)})
                tx.tasks.put(me.id, report.unit, mirror)
            for answer in report.kills or ():
                if tx.tasks.answer_kills(me.id, report.unit, answer.id, answer.outcome):
                    tx.announce(Topic.KILLS, me.id)
                    tx.on_commit(self._wake)

        await self._store.write(work)

    async def get_page(self, name: str | None, *, include_ended: bool, limit: int) -> TaskPage:
        """Of one agent, or of all.

        Raises:
            NotFound: when no agent has the name.
        """

        def work(tx: Tx) -> list[MirrorRow]:
            return tx.tasks.list_mirrors(None if name is None else get_agent(tx, name).id)

        rows = await self._store.read(work)
        tasks = [task for row in rows for task in _show(row) if include_ended or not task.state.is_final]
        tasks.sort(key=lambda task: (task.state.is_final, -(task.ended_at or 0)))
        surfaces = [
            TaskSurface(
                agent=row.agent,
                surface=row.unit,
                running=row.mirror.running,
                pending=row.mirror.pending,
                as_of=row.mirror.as_of,
                connected=row.unit in self._hub.list_units(row.agent_id),
            )
            for row in rows
        ]
        return TaskPage(tasks=tasks[:limit], surfaces=surfaces, more=len(tasks) > limit)

    async def kill(self, name: str, task_id: str) -> TaskKill:
        """Have an agent's surface end a task; waits a few seconds for its answer.

        One that was started a moment ago may not have been reported: then all of its surfaces are asked.

        Raises:
            NotFound: when there is no such agent, or no surface of it knows the task.
        """
        now = self._clock()

        def work(tx: Tx) -> tuple[int, str | None, KillOutcome | None, list[int]]:
            agent = get_agent(tx, name)
            found = _find(tx.tasks.list_mirrors(agent.id), task_id)
            if found is not None and found.state.is_final:
                return agent.id, found.surface, "over", []
            connected = [unit for unit in self._hub.list_units(agent.id) if unit in TASK_SURFACES]
            units = connected if found is None else [found.surface]
            ids = [tx.tasks.add_kill(agent.id, unit, task_id, asked_at=now) for unit in units]
            tx.announce(Topic.KILLS, agent.id)
            tx.on_commit(partial(self._push, agent.id, units, task_id))
            # One that is not connected hears nothing; that it was asked for is kept all the same.
            waited = ids if set(units) & set(connected) else []
            return agent.id, None if found is None else found.surface, None, waited

        _, surface, outcome, ids = await self._store.write(work)
        answers = [] if outcome else await self._wait(ids)
        known = [row for row in answers if row.outcome in ("killing", "over")]
        if known:
            surface, outcome = known[0].unit, _outcome(known[0])
        if surface is None and all(row.outcome == "unknown" for row in answers):
            raise NotFound(
                f"{name} has no task {task_id}; nothing was changed. `hivectl tasks {name}` shows them"
            )
        delivered = any(row.outcome is not None for row in answers)
        if outcome is None and delivered:
            outcome = "unknown"
        _log.info("task_kill_asked", agent=name, task=task_id, surface=surface, outcome=outcome)
        return TaskKill(agent=name, id=task_id, surface=surface, delivered=delivered, outcome=outcome)

    async def run(self) -> None:
        """Send down what was asked for at other brokers, until cancelled."""
        while self._store.is_shared:
            await self._asked_elsewhere.wait()
            self._asked_elsewhere = anyio.Event()
            agents = {stream.agent_id for stream in self._hub.list_streams() if stream.unit in TASK_SURFACES}
            since = self._clock() - FRESH_SECONDS
            try:
                rows = await self._store.read(partial(_list_open, agent_ids=agents, since=since))
            except HiveError as exc:
                _log.warning("kills_not_read", code=exc.code, reason=exc.message)
                continue
            for row in rows:
                self._push(row.agent_id, [row.unit], row.task_id)

    async def _wait(self, ids: list[int]) -> list[KillRow]:
        """The wishes, as soon as one of them was taken or all were answered; in time, whatever there is."""
        rows: list[KillRow] = []
        with anyio.move_on_after(self._answer_seconds):
            while ids:
                answered = self._answered
                rows = await self._store.read(partial(_list_kills, ids=ids))
                if any(row.outcome in ("killing", "over") for row in rows) or all(
                    row.outcome for row in rows
                ):
                    break
                await answered.wait()
        return rows

    def _push(self, agent_id: int, units: Iterable[str], task_id: str) -> None:
        for stream in self._hub.list_streams():
            if stream.agent_id == agent_id and stream.unit in units and not stream.push_kill(task_id):
                _log.warning("kill_not_pushed", daemon=stream.unit, task=task_id)

    def _wake(self) -> None:
        self._answered.set()
        self._answered = anyio.Event()

    def _hear(self, _agent_id: int | None) -> None:
        self._wake()
        self._asked_elsewhere.set()


def _show(row: MirrorRow) -> list[Task]:
    return [Task(agent=row.agent, surface=row.unit, **task.model_dump()) for task in row.mirror.tasks]


def _find(rows: Iterable[MirrorRow], task_id: str) -> Task | None:
    return next((task for row in rows for task in _show(row) if task.id == task_id), None)


def _outcome(row: KillRow) -> KillOutcome:
    return "over" if row.outcome == "over" else "killing"


def _list_kills(tx: Tx, *, ids: list[int]) -> list[KillRow]:
    return tx.tasks.list_kills(ids)


def _list_open(tx: Tx, *, agent_ids: set[int], since: int) -> list[KillRow]:
    return tx.tasks.list_open_kills(agent_ids, since=since)
