"""How the operator is asked for schedules and their edits, and what follows from the answer."""

from __future__ import annotations

from collections.abc import Callable

from services.broker.service.definition import Definition
from services.broker.service.due import announce
from services.broker.service.outcome import end_waits
from services.broker.service.settling import Settling
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.schedules import ScheduleRow
from shared.wire.approvals import Approval, ApprovalKind, ApprovalStatus
from shared.wire.names import OPERATOR, SYSTEM
from shared.wire.schedules import ScheduleStatus


class Asking:
    """Submits definitions, withdraws them, and puts in force what was approved; each within a transaction.

    Args:
        settling: how approvals go.
        wake: called in the event loop when something may be due earlier.
    """

    def __init__(self, settling: Settling, *, wake: Callable[[], None]) -> None:
        self._settling = settling
        self._wake = wake
        settling.on_settled(ApprovalKind.SCHEDULE_PROMPT, self._apply)

    def submit(self, tx: Tx, row: ScheduleRow, me: AgentRow, wanted: Definition, *, now: int) -> None:
        """Ask for `wanted`; a schedule that was never approved shows it from now on.

        Raises:
            LimitExceeded: when too many questions wait.
        """
        is_edit = row.status is not ScheduleStatus.PENDING
        number = self._settling.submit(
            tx,
            ApprovalKind.SCHEDULE_PROMPT,
            me,
            summary=wanted.summarize(row.id, is_edit=is_edit),
            content=wanted.write(row, is_edit=is_edit),
            now=now,
        )
        tx.schedules.update(row.id, approval_id=number)
        if not is_edit:
            tx.schedules.set_targets(row.id, wanted.targets)
            tx.schedules.update(row.id, **wanted.columns(row))

    def withdraw(self, tx: Tx, row: ScheduleRow, me: AgentRow | None, *, now: int, note: str) -> None:
        """Cancel what waits for the operator, which the schedule then knows nothing of any more.

        Where `me` is None the operator does it, and who asked is told.
        """
        if row.approval_id is not None:
            tx.schedules.update(row.id, approval_id=None)
            by = OPERATOR if me is None else me.name
            self._settling.settle(
                tx, row.approval_id, ApprovalStatus.CANCELLED, by=by, now=now, note=note, tells=me is None
            )

    def _apply(self, tx: Tx, approval: Approval, _now: int) -> None:
        """What follows when the operator has decided: exactly what was shown, or nothing."""
        assert approval.content is not None
        row = tx.schedules.find(approval.content["schedule"])
        if row is None or row.approval_id != approval.id:
            return
        if approval.status is not ApprovalStatus.APPROVED:
            ended = (
                ScheduleStatus.DENIED
                if approval.status is not ApprovalStatus.CANCELLED
                else ScheduleStatus.CANCELLED
            )
            changes = {"status": ended.value, "next_fire_at": None}
            tx.schedules.update(
                row.id, approval_id=None, **(changes if row.status is ScheduleStatus.PENDING else {})
            )
            return
        wanted = Definition.read(approval.content)
        columns = wanted.columns(row)
        if columns["next_fire_at"] is None:
            # An older version left edits waiting whose only fire was over.
            tx.schedules.update(row.id, approval_id=None)
            return
        end_waits(tx, row.id, {one.agent_id for one in row.targets} - set(wanted.targets), "withdrawn")
        tx.schedules.set_targets(row.id, wanted.targets)
        tx.schedules.update(row.id, status=ScheduleStatus.ACTIVE.value, approval_id=None, **columns)
        announce(tx, self._wake)


def find_submitted(tx: Tx, row: ScheduleRow) -> Definition | None:
    """What waits for the operator, if anything does."""
    found = None if row.approval_id is None else tx.approvals.find(row.approval_id)
    if found is None or found[0].content is None:
        return None
    return Definition.read(found[0].content)


def drop_edit(tx: Tx, settling: Settling, row: ScheduleRow, *, now: int) -> None:
    """Cancel an edit of a one-shot that has just fired, unless it is for another time or for several."""
    submitted = find_submitted(tx, row)
    if row.approval_id is not None and submitted is not None and not submitted.is_left(now):
        note = f"schedule {row.id} has fired meanwhile, and was to fire once; request a new one"
        settling.settle(tx, row.approval_id, ApprovalStatus.CANCELLED, by=SYSTEM, now=now, note=note)
