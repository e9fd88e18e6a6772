"""What a schedule is to do, as it is shown to the operator: what was approved is what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from services.broker.service.times import check_future
from services.broker.store.schedules import ScheduleRow
from shared.errors import InvalidInput
from shared.prose import one_line
from shared.wire.schedules import (
    MAX_INTERVAL_SECONDS,
    MAX_SCHEDULE_BODY_BYTES,
    MIN_INTERVAL_SECONDS,
    EditSchedule,
    ScheduleStatus,
)

_FIRST: Final = "first_fire_at_unix"


@dataclass(frozen=True, slots=True)
class Definition:
    """All that the operator approves. Targets are ids with the names that they were shown by.

    `first_fire_at` is the time of the next fire; with `keeps_times` it is only what that was when the
    operator was asked, and the schedule's own times count.
    """

    targets: Mapping[int, str]
    body: str
    first_fire_at: int | None
    interval_seconds: int | None
    description: str | None
    keeps_times: bool = False

    @classmethod
    def of(cls, row: ScheduleRow) -> Definition:
        """That of a schedule that is in force."""
        targets = {one.agent_id: one.name for one in row.targets if not one.is_cancelled}
        return cls(
            targets, row.body, row.next_fire_at, row.interval_seconds, row.description, keeps_times=True
        )

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Definition:
        """The one that was submitted."""
        targets = dict(zip(content["target_ids"], content["targets"], strict=True))
        return cls(
            targets,
            content["body"],
            content.get(_FIRST),
            content.get("interval_seconds"),
            content.get("description"),
            # Edits that were submitted by an older version have no time when they keep those that there are.
            keeps_times=content.get("keeps_times", _FIRST not in content),
        )

    def write(self, row: ScheduleRow, *, is_edit: bool) -> dict[str, Any]:
        """The content of the approval, with when it fires as things stand."""
        keeps = self.keeps_times and row.next_fire_at is not None
        content: dict[str, Any] = {
            "schedule": row.id,
            "owner": row.owner,
            "edit": is_edit,
            "targets": list(self.targets.values()),
            "target_ids": list(self.targets),
            _FIRST: row.next_fire_at if keeps else self.first_fire_at,
            "keeps_times": self.keeps_times or None,
            "interval_seconds": self.interval_seconds,
            "description": self.description,
            "body": self.body,
        }
        return {name: value for name, value in content.items() if value is not None}

    def columns(self, row: ScheduleRow) -> dict[str, Any]:
        """What a schedule has of it, but for the targets, which are rows of their own."""
        return {
            "body": self.body,
            "description": self.description,
            "interval_seconds": self.interval_seconds,
            "next_fire_at": self._find_next(row),
        }

    def is_left(self, now: int) -> bool:
        """Whether it is for more than the one fire that the schedule has just had."""
        is_ahead = self.first_fire_at is not None and self.first_fire_at > now
        return self.interval_seconds is not None or (is_ahead and not self.keeps_times)

    def _find_next(self, row: ScheduleRow) -> int | None:
        """When a schedule with this fires next; None when its only fire is behind it."""
        if not self.keeps_times:
            return self.first_fire_at
        if row.next_fire_at is not None or self.interval_seconds is None:
            return row.next_fire_at
        # It fired once while this waited, and goes on from there.
        last = row.last_fired_at or 0
        first = last if self.first_fire_at is None else self.first_fire_at
        return first + max(0, (last - first) // self.interval_seconds + 1) * self.interval_seconds

    def summarize(self, row_id: int, *, is_edit: bool) -> str:
        """One line for lists."""
        times = "once" if self.interval_seconds is None else f"every {self.interval_seconds} s"
        what = f"edit schedule {row_id}" if is_edit else f"schedule {row_id}"
        return one_line(f"{what}: {times}, to {', '.join(self.targets.values())}: {self.body}")

    def check(self) -> None:
        """Refuse what no schedule may be.

        Raises:
            InvalidInput: saying the limit.
        """
        if (size := len(self.body.encode())) > MAX_SCHEDULE_BODY_BYTES:
            raise InvalidInput(
                f"body is {size} bytes, and the limit of a schedule is {MAX_SCHEDULE_BODY_BYTES}; put the "
                "rest into a file and give its path"
            )
        interval = self.interval_seconds
        if interval is not None and not MIN_INTERVAL_SECONDS <= interval <= MAX_INTERVAL_SECONDS:
            raise InvalidInput(
                f"interval_seconds is {interval}, and must be {MIN_INTERVAL_SECONDS} to "
                f"{MAX_INTERVAL_SECONDS}; without it the schedule fires once"
            )

    def edit(self, change: EditSchedule, targets: Mapping[int, str] | None, *, now: int) -> Definition:
        """This with a partial edit on top.

        Raises:
            InvalidInput: for a contradiction, or a time that has passed.
        """
        if change.one_shot and change.interval_seconds is not None:
            raise InvalidInput("interval_seconds is given and taken away; do one of the two")
        edited = self
        if targets is not None:
            edited = replace(edited, targets=targets)
        if change.body is not None:
            edited = replace(edited, body=change.body)
        if change.description is not None:
            edited = replace(edited, description=change.description or None)
        if change.interval_seconds is not None or change.one_shot:
            edited = replace(edited, interval_seconds=change.interval_seconds)
        if change.first_fire_at_unix is not None:
            at = check_future(_FIRST, change.first_fire_at_unix, now=now)
            edited = replace(edited, first_fire_at=at, keeps_times=False)
        return edited


def needs_approval(row: ScheduleRow, wanted: Definition) -> bool:
    """Whether `wanted` does more than was approved: another body, target or sooner, or more often.

    Less of it (fewer targets, later, rarer, once) and another description need none.
    """
    if row.status is not ScheduleStatus.ACTIVE or wanted.body != row.body:
        return True
    if not set(wanted.targets) <= {one.agent_id for one in row.targets}:
        return True
    if not wanted.keeps_times and (
        row.next_fire_at is None or wanted.first_fire_at is None or wanted.first_fire_at < row.next_fire_at
    ):
        return True
    every = wanted.interval_seconds
    return every is not None and (row.interval_seconds is None or every < row.interval_seconds)
