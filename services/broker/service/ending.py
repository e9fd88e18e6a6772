"""The end of a schedule, or of some of its targets, with all that waits of it; within a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from services.broker.service.asking import Asking, find_submitted
from services.broker.service.outcome import end_waits, list_waiting
from services.broker.service.steering import OPEN, find_target, refuse_ended
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.schedules import ScheduleRow
from shared.wire.schedules import ScheduleStatus

BY_OPERATOR: Final = "cancelled by the operator"


def end(
    tx: Tx, asking: Asking, row: ScheduleRow, me: AgentRow | None, names: Sequence[str] | None, *, now: int
) -> None:
    """Cancel it for the targets `names`, or (None) altogether.

    Args:
        tx: where.
        asking: withdraws what waits for an approval.
        row: the schedule.
        me: who does it; None is the operator, who ends it altogether.
        names: targets.
        now: unix seconds.

    Raises:
        NotFound: when it does not go to such a target.
        Conflict: when it has ended, and nothing of it waits.
    """
    if row.approval_id is None and not list_waiting(tx, row):
        refuse_ended(row, "cancelled")
    submitted = find_submitted(tx, row)
    if is_over := row.status not in OPEN:
        current = list_waiting(tx, row)
    else:
        current = {one.agent_id: one.name for one in row.targets if not one.is_cancelled}
    known = current | dict(submitted.targets if submitted else {})
    gone = set(known) if names is None else {find_target(known, name, row.id) for name in names}
    note = f"schedule {row.id} was {BY_OPERATOR if me is None else 'cancelled'}"
    note += "" if names is None else " for some of its targets"
    asking.withdraw(tx, row, me, now=now, note=note)
    tx.schedules.cancel_targets(row.id, gone, at=now)
    end_waits(tx, row.id, gone, "withdrawn")
    left = set(known) - gone
    if is_over and not left:
        return
    if not left or (not set(current) - gone and submitted is None):
        result = {"last_result": BY_OPERATOR} if me is None else {}
        tx.schedules.update(row.id, status=ScheduleStatus.CANCELLED.value, next_fire_at=None, **result)
    elif submitted is not None and (targets := {n: t for n, t in submitted.targets.items() if n in left}):
        assert me is not None, "the operator leaves nothing of it"
        # What was submitted is never changed: the operator is asked anew.
        asking.submit(tx, row, me, replace(submitted, targets=targets), now=now)
