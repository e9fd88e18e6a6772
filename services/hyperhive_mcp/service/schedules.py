"""Schedules as the model sees them: what was asked for, what is in force, and what waits for the operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from shared.client import BrokerClient
from shared.prose import one_line
from shared.wire.schedules import (
    CancelSchedule,
    EditSchedule,
    RequestSchedule,
    Schedule,
    ScheduleList,
    ScheduleStatus,
    ScheduleView,
)

# Below the limit of a tool's answer, of which the rest takes some.
MAX_BYTES: Final = 36_000
BODY_SHOWN_CHARS: Final = 200


class ScheduleService:
    """Schedules of one agent and of those below it, through the broker."""

    def __init__(self, broker: BrokerClient) -> None:
        self._broker = broker

    async def request(self, request: RequestSchedule, *, key: str) -> str:
        """Have the operator asked, and say under which numbers."""
        schedule = await self._broker.plans.request_schedule(request, key)
        return (
            f"Schedule #{schedule.id} waits for the operator's approval (#{schedule.approval}). You get a "
            f"message when they have decided; it then fires at {_time(schedule.next_fire_at)}, or at once if "
            "that has passed."
        )

    async def edit(self, schedule_id: int, change: EditSchedule, *, key: str) -> str:
        """Change some of one; says whether that is in force."""
        schedule = await self._broker.plans.edit_schedule(schedule_id, change, key)
        if schedule.approval is not None:
            kept = (
                "nothing fires" if schedule.status is ScheduleStatus.PENDING else "what was approved goes on"
            )
            return (
                f"The edit of schedule #{schedule.id} waits for the operator's approval "
                f"(#{schedule.approval}); until then {kept}."
            )
        return f"Schedule #{schedule.id} is changed. {_describe(schedule)}"

    async def cancel(self, schedule_id: int, request: CancelSchedule, *, key: str) -> str:
        """End one, or leave targets out."""
        schedule = await self._broker.plans.cancel_schedule(schedule_id, request, key)
        if schedule.status is ScheduleStatus.CANCELLED:
            return f"Schedule #{schedule.id} is cancelled."
        if schedule.status is ScheduleStatus.DONE:
            asked = "" if schedule.approval is None else f" Approval #{schedule.approval} waits."
            return f"Schedule #{schedule.id} has fired: {schedule.last_result}.{asked}"
        return f"Schedule #{schedule.id} is changed. {_describe(schedule)}"

    async def fire(self, schedule_id: int, *, key: str) -> str:
        """Fire one now; says to whom it went."""
        schedule = await self._broker.plans.fire_schedule(schedule_id, key)
        return f"Schedule #{schedule.id} fired: {schedule.last_result}. {_describe(schedule)}"

    async def list(self) -> ScheduleList:
        """All that the agent may steer, and what ended lately."""
        page = await self._broker.plans.list_schedules()
        shown: list[ScheduleView] = []
        size = 0
        for schedule in page.schedules:
            view = _view(schedule)
            size += len(view.model_dump_json(exclude_none=True).encode()) + 2
            if size > MAX_BYTES:
                break
            shown.append(view)
        omitted = len(page.schedules) - len(shown) + page.more
        return ScheduleList(schedules=shown, omitted=omitted or None)


def _view(schedule: Schedule) -> ScheduleView:
    cancelled = [target.name for target in schedule.targets if target.cancelled]
    return ScheduleView(
        id=schedule.id,
        owner=schedule.owner,
        status=schedule.status,
        targets=[target.name for target in schedule.targets if not target.cancelled],
        cancelled_targets=cancelled or None,
        body=one_line(schedule.body, limit=BODY_SHOWN_CHARS),
        description=schedule.description,
        next_fire_at=schedule.next_fire_at,
        interval_seconds=schedule.interval_seconds,
        last_fired_at=schedule.last_fired_at,
        last_result=schedule.last_result,
        approval=schedule.approval,
    )


def _describe(schedule: Schedule) -> str:
    if schedule.next_fire_at is None:
        if schedule.approval is None:
            return "It fires no more."
        return f"It fires again only once the operator approves what waits (approval #{schedule.approval})."
    often = "once" if schedule.interval_seconds is None else f"then every {schedule.interval_seconds} s"
    names = ", ".join(target.name for target in schedule.targets if not target.cancelled) or "nobody"
    return f"It fires at {_time(schedule.next_fire_at)}, {often}, to {names}."


def _time(at: int | None) -> str:
    if at is None:
        return "no time"
    return f"{datetime.fromtimestamp(at, tz=UTC).strftime('%Y-%m-%d %H:%M:%S UTC')} (unix {at})"
