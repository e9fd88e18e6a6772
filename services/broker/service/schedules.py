"""Schedules as their owners, and those above them, steer them; nothing fires that was not approved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from services.broker.service.asking import Asking, find_submitted
from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.definition import Definition, needs_approval
from services.broker.service.due import announce
from services.broker.service.ending import end
from services.broker.service.family import list_self_and_below, resolve_targets
from services.broker.service.firing import Firing
from services.broker.service.idempotency import AnswerMeter, Attempt, answer_once
from services.broker.service.naming import get_agent
from services.broker.service.rights import require_tool
from services.broker.service.steering import (
    OPEN,
    get_row,
    get_steerable,
    narrow,
    pick_targets,
    refuse_ended,
)
from services.broker.service.times import check_future
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from services.broker.store.schedules import ScheduleRow
from shared.errors import Conflict, LimitExceeded, NotFound
from shared.wire.model import WireRequest
from shared.wire.names import OPERATOR
from shared.wire.schedules import (
    CancelSchedule,
    EditSchedule,
    RequestSchedule,
    Schedule,
    SchedulePage,
    ScheduleStatus,
)

MAX_OPEN_OF_AGENT: Final = 20
MAX_LISTED: Final = 200
MAX_ENDED_LISTED: Final = 20

Work = Callable[[Tx, AgentRow, int], ScheduleRow]

_log = structlog.get_logger(__name__)


class _Nothing(WireRequest):
    """A request that says all by its path."""


class ScheduleService:
    """Requests, edits, cancels, fires and lists.

    Args:
        store: where they are.
        asking: how the operator is asked.
        firing: how they are delivered.
        answers: hears of every answer that is kept.
        clock: for times.
        wake: called in the event loop when something may be due earlier.
    """

    def __init__(
        self,
        store: Store,
        asking: Asking,
        firing: Firing,
        *,
        answers: AnswerMeter,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._asking = asking
        self._firing = firing
        self._answers = answers
        self._clock = clock
        self._wake = wake

    async def request(self, caller: AgentCaller, request: RequestSchedule, *, key: str | None) -> Schedule:
        """Store a schedule that fires once the operator has approved it.

        Raises:
            Forbidden: without the group, or for a target that is not below the caller.
            NotFound: for a target that is no agent.
            InvalidInput: for a time, interval or body that cannot be.
            LimitExceeded: when too many are open, or too many questions wait.
        """

        def work(tx: Tx, me: AgentRow, now: int) -> ScheduleRow:
            first = check_future("first_fire_at_unix", request.first_fire_at_unix, now=now)
            targets = {one.id: one.name for one in resolve_targets(tx, me, request.targets)}
            wanted = Definition(
                targets, request.body, first, request.interval_seconds, request.description or None
            )
            wanted.check()
            if tx.schedules.count_open(me.id) >= MAX_OPEN_OF_AGENT:
                raise LimitExceeded(
                    f"{me.name} has {MAX_OPEN_OF_AGENT} open schedules, which is the limit; nothing was "
                    "asked. list_schedules shows them, cancel_schedule ends one",
                    code="too_many_schedules",
                    details={"limit": MAX_OPEN_OF_AGENT},
                )
            number = tx.schedules.insert(
                owner_id=me.id,
                created_at=now,
                body=wanted.body,
                description=wanted.description,
                next_fire_at=first,
                interval_seconds=wanted.interval_seconds,
            )
            self._asking.submit(tx, get_row(tx, number), me, wanted, now=now)
            return get_row(tx, number)

        return await self._change(caller, "request_schedule_prompt", request, key, work)

    async def edit(
        self, caller: AgentCaller, schedule_id: int, change: EditSchedule, *, key: str | None
    ) -> Schedule:
        """Change some of a schedule: at once where it does no more than was approved, else once approved.

        An edit goes on top of one that waits for approval, and takes its place.

        Raises:
            NotFound: when the caller may steer none by this id; nothing was changed.
            Conflict: when it has ended.
        """

        def work(tx: Tx, me: AgentRow, now: int) -> ScheduleRow:
            row = get_steerable(tx, me, schedule_id)
            refuse_ended(row, "edited")
            before = find_submitted(tx, row) or Definition.of(row)
            targets = None if change.targets is None else pick_targets(tx, me, row, change.targets)
            wanted = before.edit(change, targets, now=now)
            wanted.check()
            self._asking.withdraw(tx, row, me, now=now, note=f"schedule {row.id} was edited again")
            if needs_approval(row, wanted):
                self._asking.submit(tx, row, me, wanted, now=now)
            else:
                narrow(tx, row, wanted, now=now)
                announce(tx, self._wake)
            return get_row(tx, row.id)

        return await self._change(caller, "edit_schedule", change, key, work, about=schedule_id)

    async def cancel(
        self, caller: AgentCaller, schedule_id: int, request: CancelSchedule, *, key: str | None
    ) -> Schedule:
        """End a schedule, or leave some targets out of it; at once, without anybody's approval.

        Of one that has fired for the last time it withdraws what still waits: for room, or for an approval.

        Raises:
            NotFound: when the caller may steer none by this id, or it does not go to such a target.
            Conflict: when it has ended, and nothing of it waits.
        """

        def work(tx: Tx, me: AgentRow, now: int) -> ScheduleRow:
            row = get_steerable(tx, me, schedule_id)
            end(tx, self._asking, row, me, request.targets, now=now)
            return get_row(tx, row.id)

        return await self._change(caller, "cancel_schedule", request, key, work, about=schedule_id)

    async def cancel_as_operator(self, schedule_id: int) -> Schedule:
        """End anybody's schedule, with all that waits of it; whoever asked for what waits is told.

        Raises:
            NotFound: when there is none by this id.
            Conflict: when it has ended, and nothing of it waits.
        """
        now = self._clock()

        def work(tx: Tx) -> Schedule:
            row = tx.schedules.find(schedule_id)
            if row is None:
                raise NotFound(f"there is no schedule {schedule_id}; nothing was changed")
            end(tx, self._asking, row, None, None, now=now)
            return get_row(tx, row.id).show()

        schedule = await self._store.write(work)
        _log.info("schedule_cancelled", by=OPERATOR, schedule=schedule.id, status=schedule.status.value)
        return schedule

    async def fire_now(self, caller: AgentCaller, schedule_id: int, *, key: str | None) -> Schedule:
        """Fire an approved schedule now: beside its times when it recurs, instead of its time when not.

        Raises:
            NotFound: when the caller may steer none by this id; nothing was sent.
            Conflict: when it is not approved, or has ended.
            LimitExceeded: when owner and a target exchange too many messages a minute.
        """

        def work(tx: Tx, me: AgentRow, now: int) -> ScheduleRow:
            row = get_steerable(tx, me, schedule_id)
            refuse_ended(row, "fired")
            if row.status is not ScheduleStatus.ACTIVE:
                raise Conflict(
                    f"schedule #{row.id} waits for the operator's approval (#{row.approval_id}); nothing was "
                    "sent",
                    code="not_approved",
                )
            self._firing.fire_by_hand(tx, row, now=now)
            announce(tx, self._wake)
            return get_row(tx, row.id)

        return await self._change(caller, "fire_schedule_now", _Nothing(), key, work, about=schedule_id)

    async def list_own(self, caller: AgentCaller) -> SchedulePage:
        """The caller's schedules and those of agents below, newest first: open ones, then ended ones.

        Raises:
            Forbidden: without the group.
        """

        def work(tx: Tx) -> SchedulePage:
            me = get_self(tx, caller)
            require_tool(me, "list_schedules")
            owners = [one.id for one in list_self_and_below(tx, me)]
            rows = tx.schedules.list_page(owner_ids=owners, ended=False, limit=MAX_LISTED + 1)
            latest = tx.schedules.list_page(owner_ids=owners, ended=True, limit=MAX_ENDED_LISTED)
            ended = [row for row in latest if row.status not in OPEN]
            shown = [row.show() for row in (*rows[:MAX_LISTED], *ended)]
            return SchedulePage(schedules=shown, more=len(rows) > MAX_LISTED)

        return await self._store.read(work)

    async def get_page(self, *, agent: str | None, ended: bool, limit: int) -> SchedulePage:
        """The operator's view: newest first, of one owner or of all.

        Raises:
            NotFound: when no agent has the name.
        """

        def work(tx: Tx) -> SchedulePage:
            owners = None if agent is None else [get_agent(tx, agent).id]
            rows = tx.schedules.list_page(owner_ids=owners, ended=ended, limit=limit + 1)
            return SchedulePage(schedules=[row.show() for row in rows[:limit]], more=len(rows) > limit)

        return await self._store.read(work)

    async def _change(
        self,
        caller: AgentCaller,
        tool: str,
        request: WireRequest,
        key: str | None,
        work: Work,
        *,
        about: int = 0,
    ) -> Schedule:
        """Do `work` once a key, as an agent that may use `tool`."""
        attempt = Attempt.of(caller.scope, key, f"{tool} {about}", request)
        now = self._clock()

        def run(tx: Tx) -> Schedule:
            me = get_self(tx, caller, lock=True)

            def change() -> Schedule:
                require_tool(me, tool)
                return work(tx, me, now).show()

            return answer_once(tx, attempt, Schedule, change, now=now)

        schedule = await self._store.write(run)
        self._answers.note(attempt)
        _log.info(
            "schedule_changed", by=caller.name, tool=tool, schedule=schedule.id, status=schedule.status.value
        )
        return schedule
