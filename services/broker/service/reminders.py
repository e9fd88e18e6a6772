"""Reminders: an agent's messages to itself for later, and their delivery when they fall due."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.due import HOLD_SECONDS, AtStep, announce, no_step
from services.broker.service.idempotency import AnswerMeter, Attempt, answer_once
from services.broker.service.limits import Limits
from services.broker.service.naming import get_agent
from services.broker.service.rights import require_tool
from services.broker.service.times import resolve_due
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from services.broker.store.messages import NewMessage
from services.broker.store.reminders import DueReminder
from shared.errors import LimitExceeded, NotFound
from shared.wire.names import OPERATOR
from shared.wire.reminders import Reminder, ReminderPage, RemindRequest, SpillsRequest, SpillsResult

_log = structlog.get_logger(__name__)


class ReminderService:
    """Sets, lists and cancels reminders.

    Args:
        store: where they are.
        answers: hears of every answer that is kept.
        max_pending: how many of one agent may be pending.
        clock: for due times.
        wake: called in the event loop when a new one is committed.
    """

    def __init__(
        self,
        store: Store,
        *,
        answers: AnswerMeter,
        max_pending: int,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._answers = answers
        self._max_pending = max_pending
        self._clock = clock
        self._wake = wake

    async def set(self, caller: AgentCaller, request: RemindRequest, *, key: str | None) -> Reminder:
        """Store a reminder; it survives restarts and comes once.

        Raises:
            InvalidInput: not exactly one time, or one that cannot be.
            Forbidden: without the group.
            LimitExceeded: when too many are pending.
            Conflict: the key was used for another request.
        """
        attempt = Attempt.of(caller.scope, key, "remind", request)
        now = self._clock()

        def work(tx: Tx) -> Reminder:
            me = get_self(tx, caller, lock=True)
            return answer_once(tx, attempt, Reminder, lambda: store(tx, me), now=now)

        def store(tx: Tx, me: AgentRow) -> Reminder:
            require_tool(me, "remind")
            due_at = resolve_due(
                delay_seconds=request.delay_seconds, at_unix_timestamp=request.at_unix_timestamp, now=now
            )
            if tx.reminders.count(me.id) >= self._max_pending:
                raise LimitExceeded(
                    f"{me.name} has {self._max_pending} pending reminders, which is the limit; nothing was "
                    "stored. get_loose_ends lists them, cancel_loose_end removes one",
                    code="too_many_reminders",
                    details={"limit": self._max_pending},
                )
            number = tx.reminders.insert(
                agent_id=me.id, body=request.body, spill=request.spill, created_at=now, due_at=due_at
            )
            announce(tx, self._wake)
            return Reminder(
                id=number,
                agent=me.name,
                body=request.body,
                created_at=now,
                due_at=due_at,
                spill=request.spill,
            )

        reminder = await self._store.write(work)
        self._answers.note(attempt)
        _log.info("reminder_set", agent=caller.name, reminder=reminder.id, due_at=reminder.due_at)
        return reminder

    async def cancel(self, caller: AgentCaller, reminder_id: int) -> Reminder:
        """Delete one of the caller's own; answers what it was.

        Raises:
            NotFound: when there is none of the caller's by this id; nothing was changed.
            Forbidden: without the group.
        """

        def work(tx: Tx) -> Reminder:
            me = get_self(tx, caller, lock=True)
            require_tool(me, "cancel_loose_end")
            found = tx.reminders.find(reminder_id, agent_id=me.id)
            if found is None:
                raise NotFound(f"you have no pending reminder #{reminder_id}; nothing was changed")
            tx.reminders.delete(found.id)
            return found

        return await self._cancel(work, by=caller.name)

    async def cancel_as_operator(self, reminder_id: int) -> Reminder:
        """Delete anybody's; answers what it was. Its agent is not told.

        Raises:
            NotFound: when none by this id is pending; nothing was changed.
        """

        def work(tx: Tx) -> Reminder:
            found = tx.reminders.find(reminder_id)
            if found is None:
                raise NotFound(
                    f"no reminder {reminder_id} is pending: it has come, was cancelled, or never was"
                )
            tx.reminders.delete(found.id)
            return found

        return await self._cancel(work, by=OPERATOR)

    async def _cancel(self, work: Callable[[Tx], Reminder], *, by: str) -> Reminder:
        reminder = await self._store.write(work)
        _log.info("reminder_cancelled", by=by, agent=reminder.agent, reminder=reminder.id)
        return reminder

    async def list_own(self, caller: AgentCaller) -> ReminderPage:
        """The caller's pending reminders, soonest first.

        Raises:
            Forbidden: without the group.
        """

        def work(tx: Tx) -> ReminderPage:
            me = get_self(tx, caller)
            require_tool(me, "get_loose_ends")
            return _page(
                tx.reminders.list_page(agent_id=me.id, limit=self._max_pending + 1), self._max_pending
            )

        return await self._store.read(work)

    async def get_page(self, *, agent: str | None, limit: int) -> ReminderPage:
        """The operator's view: pending reminders of one agent, or of all.

        Raises:
            NotFound: when no agent has the name.
        """

        def work(tx: Tx) -> ReminderPage:
            owner = None if agent is None else get_agent(tx, agent).id
            return _page(tx.reminders.list_page(agent_id=owner, limit=limit + 1), limit)

        return await self._store.read(work)

    async def get_spills(self, caller: AgentCaller, request: SpillsRequest) -> SpillsResult:
        """Which files are still needed; in no tool group, for it only lets a daemon tidy up."""

        def work(tx: Tx) -> SpillsResult:
            return SpillsResult(states=tx.reminders.list_spills(get_self(tx, caller).id, request.spills))

        return await self._store.read(work)


class DueReminders:
    """Turns reminders that are due into messages of their agents to themselves. A `due.Plan`.

    Args:
        limits: how full an inbox may be; a reminder for a full one waits.
        at_step: called between the steps of a delivery.
    """

    def __init__(self, limits: Limits, *, at_step: AtStep = no_step) -> None:
        self._limits = limits
        self._at_step = at_step

    def fire(self, tx: Tx, *, now: int, limit: int) -> int:
        """Deliver up to `limit`, or put off what finds its inbox full."""
        due = tx.reminders.list_due(now, limit=limit)
        for reminder in due:
            agent = tx.agents.find_live(reminder.agent_id, lock=True)
            if agent is None:
                tx.reminders.delete(reminder.id)
            elif tx.inbox.count_pending(agent.id) >= self._limits.max_pending:
                tx.reminders.hold(reminder.id, until=now + HOLD_SECONDS)
                _log.info("reminder_held", agent=agent.name, reminder=reminder.id, reason="inbox_full")
            else:
                self._deliver(tx, reminder, agent.name, now=now)
        return len(due)

    def find_next(self, tx: Tx) -> int | None:
        return tx.reminders.find_next()

    def release_held(self, tx: Tx, *, after: int) -> int:
        return tx.reminders.release_held(after=after)

    def _deliver(self, tx: Tx, reminder: DueReminder, name: str, *, now: int) -> None:
        tx.reminders.delete(reminder.id)
        self._at_step("claimed")
        # From the agent itself: nobody else can write under its name, and it cannot `send` to itself.
        message_id = tx.messages.insert(
            NewMessage(
                sender=name,
                sender_agent_id=reminder.agent_id,
                recipient=name,
                recipient_agent_id=reminder.agent_id,
                body=reminder.body,
                sent_at=now,
                origin=f"reminder:{reminder.id}",
            )
        )
        if reminder.spill is not None:
            tx.reminders.note_spill(reminder.agent_id, reminder.spill, message_id=message_id, at=now)
        self._at_step("delivered")


def _page(rows: list[Reminder], limit: int) -> ReminderPage:
    return ReminderPage(reminders=rows[:limit], more=len(rows) > limit)
