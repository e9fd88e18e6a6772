"""Tools by which an agent plans ahead, and sees what is open."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from services.hyperhive_mcp.service.loose_ends import CANCELLABLE, LooseEndService, refuse_kind
from services.hyperhive_mcp.service.reminders import ReminderService
from shared.mcp.arguments import WHOLE, ToolArguments
from shared.mcp.tool import Call, Tool
from shared.wire.loose_ends import LooseEnds
from shared.wire.model import MAX_ID, check_content

RowId = Annotated[int, Field(ge=1, le=MAX_ID), WHOLE]

# What it may be the broker says, with its clock; a schema of a bound would say less, and cost.
Seconds = Annotated[int, Field(le=MAX_ID), AfterValidator(lambda value: max(value, -MAX_ID)), WHOLE]


class NoArguments(ToolArguments):
    """For tools that take none."""


class RemindArguments(ToolArguments):
    """Arguments of `remind`."""

    message: Annotated[str, AfterValidator(check_content), Field(description="at most 64 KiB")]
    delay_seconds: Annotated[Seconds | None, Field(description="from now")] = None
    at_unix_timestamp: Seconds | None = None


class CancelArguments(ToolArguments):
    """Arguments of `cancel_loose_end`."""

    kind: Annotated[str, Field(min_length=1, max_length=40, description="reminder, todo or approval")]
    id: RowId

    @model_validator(mode="before")
    @classmethod
    def _check_kind(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the model wrote
        # Before the id, which kinds that cannot be cancelled have in forms of their own.
        kind = given.get("kind") if isinstance(given, dict) else None
        if isinstance(kind, str) and kind and kind not in CANCELLABLE:
            raise refuse_kind(kind)
        return given


def build_planning_tools(reminders: ReminderService, loose_ends: LooseEndService) -> list[Tool]:
    """These tools, wired to their services."""

    async def remind(args: RemindArguments, call: Call) -> str:
        return await reminders.remind(
            args.message,
            delay_seconds=args.delay_seconds,
            at_unix_timestamp=args.at_unix_timestamp,
            key=call.key,
        )

    async def get_loose_ends(_args: NoArguments, _call: Call) -> LooseEnds:
        return await loose_ends.list()

    async def cancel_loose_end(args: CancelArguments, _call: Call) -> str:
        return await loose_ends.cancel(args.kind, args.id)

    return [
        Tool(
            "get_loose_ends",
            "List what is still open for you: unseen mail, todos, reminders, running tasks, questions "
            "to the operator, messages of yours that wait for hours. "
            "Kinds under `unavailable` could not be asked for.",
            NoArguments,
            get_loose_ends,
            result=LooseEnds,
            read_only=True,
            reports_progress=False,
        ),
        Tool(
            "cancel_loose_end",
            "Delete a reminder or clear a todo of yours; approvals only the root agent may cancel.",
            CancelArguments,
            cancel_loose_end,
            reports_progress=False,
        ),
        Tool(
            "remind",
            "Send yourself a message later: give exactly one of the two times, whole seconds. It survives "
            "restarts and comes to your inbox, from you; a text over 4 KiB as the path of its file.",
            RemindArguments,
            remind,
            reports_progress=False,
        ),
    ]
