"""Rows of schedules for those who may steer them, and edits that need nobody's approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.broker.service.definition import Definition
from services.broker.service.family import is_self_or_below, resolve_targets
from services.broker.service.outcome import end_waits
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.schedules import ScheduleRow
from shared.errors import Conflict, NotFound
from shared.wire.schedules import ScheduleStatus

OPEN = (ScheduleStatus.PENDING, ScheduleStatus.ACTIVE)


def get_row(tx: Tx, schedule_id: int) -> ScheduleRow:
    """One that is there."""
    row = tx.schedules.find(schedule_id)
    assert row is not None
    return row


def get_steerable(tx: Tx, me: AgentRow, schedule_id: int) -> ScheduleRow:
    """One that `me` may steer: its own, or that of an agent below.

    Raises:
        NotFound: when there is none such by this id; foreign and absent look the same.
    """
    row = tx.schedules.find(schedule_id)
    owner = None if row is None else tx.agents.find_live(row.owner_id)
    if row is None or owner is None or not is_self_or_below(tx, owner, me):
        raise NotFound(
            f"neither you nor an agent below you has a schedule #{schedule_id}; nothing was changed. "
            "list_schedules shows what there is"
        )
    return row


def refuse_ended(row: ScheduleRow, verb: str) -> None:
    """Refuse what has ended.

    Raises:
        Conflict: saying how it stands.
    """
    if row.status not in OPEN:
        raise Conflict(
            f"schedule #{row.id} is {row.status.value} and cannot be {verb}; request a new one",
            code="schedule_ended",
            details={"status": row.status.value},
        )


def narrow(tx: Tx, row: ScheduleRow, wanted: Definition, *, now: int) -> None:
    """Put an edit in force that does no more than was approved."""
    left_out = {one.agent_id for one in row.targets} - set(wanted.targets)
    tx.schedules.cancel_targets(row.id, left_out, at=now)
    tx.schedules.restore_targets(row.id, list(wanted.targets))
    end_waits(tx, row.id, left_out, "withdrawn")
    tx.schedules.update(row.id, **wanted.columns(row))


def pick_targets(tx: Tx, me: AgentRow, row: ScheduleRow, names: Sequence[str]) -> dict[int, str]:
    """Targets of an edit: those that the schedule had, wherever they stand now, and the caller's own."""
    had = {one.name: one.agent_id for one in row.targets if tx.agents.find_live(one.agent_id) is not None}
    fresh = resolve_targets(tx, me, [name for name in names if name not in had])
    chosen = {one.name: one.id for one in fresh} | had
    return {chosen[name]: name for name in names}


def find_target(known: Mapping[int, str], name: str, schedule_id: int) -> int:
    """The id of a target.

    Raises:
        NotFound: when the schedule does not go there, with those to whom it goes.
    """
    for agent_id, one in known.items():
        if one == name:
            return agent_id
    listed = ", ".join(sorted(known.values()))
    raise NotFound(
        f"schedule #{schedule_id} does not go to {name[:40]!r}; nothing was changed. It goes to: {listed}"
    )
