"""Fires of schedules: to every target at once, held where an inbox is full, caught up after an absence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from services.broker.service.asking import drop_edit
from services.broker.service.due import HOLD_SECONDS, AtStep, no_step
from services.broker.service.limits import Limits, Pair, claim_pair
from services.broker.service.outcome import Fate, Outcome, end_waits
from services.broker.service.settling import Settling
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.messages import NewMessage
from services.broker.store.schedules import ScheduleRow
from shared.wire.schedules import ScheduleStatus

# A fire is up to 20 messages, so fewer of them make a batch.
BATCH_SCHEDULES: Final = 5

_log = structlog.get_logger(__name__)


class Firing:
    """Delivers fires within a transaction.

    Args:
        limits: how full an inbox may be, and how fast a pair.
        settling: cancels the edits that wait when there is nothing left to edit.
        at_step: called between the steps of a delivery.
    """

    def __init__(self, limits: Limits, settling: Settling, *, at_step: AtStep = no_step) -> None:
        self._limits = limits
        self._settling = settling
        self._at_step = at_step

    def fire(self, tx: Tx, schedule: ScheduleRow, *, now: int, skipped: int = 0) -> Outcome:
        """Send the approved body to every target, and move the schedule on: a one-shot is done by it."""
        next_at = _next_after(schedule, now)
        outcome = self._deliver(tx, schedule, now=now, paired=False, skipped=skipped)
        self._note(tx, schedule, outcome, now=now, next_fire_at=next_at)
        return outcome

    def fire_by_hand(self, tx: Tx, schedule: ScheduleRow, *, now: int) -> Outcome:
        """The same now: beside the times of a recurring one, instead of the time of a one-shot.

        Raises:
            LimitExceeded: when owner and a target exchange too many messages a minute.
        """
        outcome = self._deliver(tx, schedule, now=now, paired=True)
        self._note(tx, schedule, outcome, now=now, next_fire_at=schedule.next_fire_at)
        return outcome

    def _deliver(self, tx: Tx, schedule: ScheduleRow, *, now: int, paired: bool, skipped: int = 0) -> Outcome:
        outcome = Outcome(skipped=skipped)
        owner = tx.agents.find_live(schedule.owner_id)
        for target in schedule.targets:
            if target.is_cancelled:
                continue
            agent = tx.agents.find_live(target.agent_id, lock=True)
            if agent is None or owner is None:
                outcome.gone.append(target.name)
                continue
            if tx.inbox.count_pending(agent.id) >= self._limits.max_pending:
                is_new = tx.held_fires.add(
                    schedule.id, agent.id, body=schedule.body, at=now, wake_at=now + HOLD_SECONDS
                )
                (outcome.held if is_new else outcome.still_held).append(agent.name)
                continue
            pair = claim_pair(tx, owner, agent, self._limits, now=now) if paired else None
            _Origin(schedule.id, owner.id, owner.name).send(tx, agent, schedule.body, now=now, pair=pair)
            outcome.delivered.append(agent.name)
        return outcome

    def _note(
        self, tx: Tx, schedule: ScheduleRow, outcome: Outcome, *, now: int, next_fire_at: int | None
    ) -> None:
        self._at_step("delivered")
        is_over = schedule.interval_seconds is None
        tx.schedules.update(
            schedule.id,
            last_fired_at=now,
            fires=schedule.fires + 1,
            last_result=str(outcome),
            next_fire_at=None if is_over else next_fire_at,
            status=(ScheduleStatus.DONE if is_over else ScheduleStatus.ACTIVE).value,
        )
        if is_over:
            drop_edit(tx, self._settling, schedule, now=now)
        self._at_step("claimed")
        _log.info(
            "schedule_fired",
            schedule=schedule.id,
            delivered=len(outcome.delivered),
            held=len(outcome.held),
            skipped=outcome.skipped,
        )


class DueSchedules:
    """Fires what is due: once, however many of its times have passed meanwhile. A `due.Plan`."""

    def __init__(self, firing: Firing) -> None:
        self._firing = firing

    def fire(self, tx: Tx, *, now: int, limit: int) -> int:
        """Fire a few; says how many."""
        due = tx.schedules.list_due(now, limit=min(limit, BATCH_SCHEDULES))
        for schedule in due:
            self._firing.fire(tx, schedule, now=now, skipped=_count_missed(schedule, now))
        return len(due)

    def find_next(self, tx: Tx) -> int | None:
        return tx.schedules.find_next()

    def release_held(self, tx: Tx, *, after: int) -> int:
        """Nothing is held here."""
        del tx, after
        return 0


class DueHeldFires:
    """Tries again what found an inbox full. A `due.Plan`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def fire(self, tx: Tx, *, now: int, limit: int) -> int:
        """Deliver up to `limit`, or put them off again."""
        due = tx.held_fires.list_due(now, limit=limit)
        for held in due:
            agent = tx.agents.find_live(held.agent_id, lock=True)
            if agent is not None and tx.inbox.count_pending(agent.id) >= self._limits.max_pending:
                tx.held_fires.hold(held, until=now + HOLD_SECONDS)
                continue
            fate: Fate = "gone" if agent is None else "delivered"
            end_waits(tx, held.schedule_id, [held.agent_id], fate)
            if agent is not None:
                _Origin(held.schedule_id, held.owner_id, held.owner).send(tx, agent, held.body, now=now)
        return len(due)

    def find_next(self, tx: Tx) -> int | None:
        return tx.held_fires.find_next()

    def release_held(self, tx: Tx, *, after: int) -> int:
        return tx.held_fires.release_held(after=after, now=after - HOLD_SECONDS)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Whose schedule a message is of."""

    schedule_id: int
    owner_id: int
    owner: str

    def send(self, tx: Tx, to: AgentRow, body: str, *, now: int, pair: Pair | None = None) -> None:
        """Store one message: from the owner, as if they had written it themselves."""
        tx.messages.insert(
            NewMessage(
                sender=self.owner,
                sender_agent_id=self.owner_id,
                recipient=to.name,
                recipient_agent_id=to.id,
                body=body,
                sent_at=now,
                origin=f"schedule:{self.schedule_id}",
                pair=None if pair is None else pair.key,
                pair_seq=None if pair is None else pair.seq,
            )
        )


def _count_missed(schedule: ScheduleRow, now: int) -> int:
    if schedule.interval_seconds is None or schedule.next_fire_at is None:
        return 0
    return (now - schedule.next_fire_at) // schedule.interval_seconds


def _next_after(schedule: ScheduleRow, now: int) -> int | None:
    """The first of its times that lies ahead: they stay where they are, whenever one was late."""
    if schedule.interval_seconds is None or schedule.next_fire_at is None:
        return None
    return schedule.next_fire_at + (_count_missed(schedule, now) + 1) * schedule.interval_seconds
