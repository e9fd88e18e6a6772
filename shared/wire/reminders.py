"""Reminders: messages that an agent sends to itself for later."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from shared.wire.model import MAX_ID, WireRequest, WireResult, check_content

# What is longer lies in a file, and the reminder says where.
MAX_REMINDER_BYTES = 4 * 1024
MAX_SPILLS = 1_000

# What a time may be the broker says, with its clock: here only what a number may be.
WholeNumber = Annotated[int, Field(ge=-MAX_ID, le=MAX_ID)]
SpillKey = Annotated[str, StringConstraints(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")]  # a ULID
SpillState = Literal["pending", "sent", "acked"]


def check_reminder(value: str) -> str:
    """A text of 1 byte to 4 KiB in UTF-8.

    Raises:
        ValueError: saying what is wrong with it.
    """
    size = len(check_content(value).encode())
    if size > MAX_REMINDER_BYTES:
        raise ValueError(
            f"is {size} bytes and the limit is {MAX_REMINDER_BYTES}; put it into a file and give its path"
        )
    return value


ReminderText = Annotated[
    str,
    AfterValidator(check_reminder),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_REMINDER_BYTES,
            "description": "at most 4 KiB in UTF-8, not blank, without U+0000",
        }
    ),
]


class RemindRequest(WireRequest):
    """`POST reminders`, with an `Idempotency-Key`. Exactly one of the two times, by the broker's clock.

    `spill` names the file of a longer text, so that one can ask later whether it is still needed.
    """

    body: ReminderText
    delay_seconds: WholeNumber | None = None
    at_unix_timestamp: WholeNumber | None = None
    spill: SpillKey | None = None


class Reminder(WireResult):
    """One that has not come yet. `agent` is whose it is."""

    id: int
    agent: str
    body: str
    created_at: int
    due_at: int
    spill: str | None = None
    held: bool = Field(default=False, description="due, but the agent's inbox is full")


class ReminderPage(WireResult):
    """Pending reminders, soonest first, and whether there are more."""

    reminders: list[Reminder]
    more: bool = False


class SpillsRequest(WireRequest):
    """`POST reminder-spills`: ask which files of long reminders are still needed; changes nothing."""

    spills: Annotated[list[SpillKey], Field(max_length=MAX_SPILLS)]


class SpillsResult(WireResult):
    """How the reminder of each file stands; what is not the caller's own is absent."""

    states: dict[str, SpillState]
