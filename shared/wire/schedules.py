"""Schedules: prompts that go to agents at a time, again every interval, once the operator has approved."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from shared.wire.messages import Recipient
from shared.wire.model import Body, WireRequest, WireResult, check_text
from shared.wire.reminders import WholeNumber

MAX_TARGETS = 20
MAX_SCHEDULE_BODY_BYTES = 16 * 1024
MIN_INTERVAL_SECONDS = 60
MAX_INTERVAL_SECONDS = 3_653 * 86_400  # ten years
MAX_DESCRIPTION_CHARS = 200


class ScheduleStatus(StrEnum):
    """How it stands; the last three are for good."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    DENIED = "denied"
    CANCELLED = "cancelled"


def _check_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be one line without control characters")
    return value


Targets = Annotated[list[Recipient], Field(min_length=1, max_length=MAX_TARGETS)]
# The limit first: after another check pydantic would count items instead of characters.
Description = Annotated[
    str,
    StringConstraints(max_length=MAX_DESCRIPTION_CHARS),
    AfterValidator(check_text),
    AfterValidator(_check_line),
]


class RequestSchedule(WireRequest):
    """`POST schedules`, with an `Idempotency-Key`. What times and sizes may be the broker says."""

    targets: Targets
    body: Body
    first_fire_at_unix: WholeNumber
    interval_seconds: WholeNumber | None = None
    description: Description | None = None


class EditSchedule(WireRequest):
    """`POST schedules/{id}/edit`: what is null stays. `one_shot` takes the interval away."""

    targets: Targets | None = None
    body: Body | None = None
    first_fire_at_unix: WholeNumber | None = None
    interval_seconds: WholeNumber | None = None
    one_shot: bool = False
    description: Description | None = None


class CancelSchedule(WireRequest):
    """`POST schedules/{id}/cancel`: for these targets, or (null) altogether."""

    targets: Targets | None = None


class ScheduleTarget(WireResult):
    """To whom it goes, or went before that was cancelled."""

    name: str
    cancelled: bool = False


class Schedule(WireResult):
    """One schedule. `approval` is what waits for the operator: the whole of it, or an edit of it."""

    id: int
    owner: str
    status: ScheduleStatus
    targets: list[ScheduleTarget]
    body: str
    description: str | None = None
    next_fire_at: int | None = None
    interval_seconds: int | None = None
    created_at: int
    last_fired_at: int | None = None
    fires: int = 0
    last_result: str | None = None
    approval: int | None = None


class SchedulePage(WireResult):
    """Schedules, and whether there are more."""

    schedules: list[Schedule]
    more: bool = False


class ScheduleView(WireResult):
    """One as `list_schedules` shows it: its body is cut."""

    id: int
    owner: str
    status: ScheduleStatus
    targets: list[str]
    cancelled_targets: list[str] | None = None
    body: str
    description: str | None = None
    next_fire_at: int | None = None
    interval_seconds: int | None = None
    last_fired_at: int | None = None
    last_result: str | None = None
    approval: int | None = None


class ScheduleList(WireResult):
    """The answer of `list_schedules`; `omitted` counts those for which there was no room."""

    schedules: list[ScheduleView]
    omitted: int | None = None
