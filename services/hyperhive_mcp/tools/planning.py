"""Tools by which an agent plans ahead."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from services.hyperhive_mcp.service.reminders import ReminderService
from shared.mcp.arguments import WHOLE, ToolArguments
from shared.mcp.tool import Call, Tool
from shared.wire.model import MAX_ID, check_content

# What it may be the broker says, with its clock; a schema of a bound would say less, and cost.
Seconds = Annotated[int, Field(le=MAX_ID), AfterValidator(lambda value: max(value, -MAX_ID)), WHOLE]


class RemindArguments(ToolArguments):
    """Arguments of `remind`."""

    message: Annotated[str, AfterValidator(check_content), Field(description="at most 64 KiB")]
    delay_seconds: Annotated[Seconds | None, Field(description="from now")] = None
    at_unix_timestamp: Seconds | None = None


def build_planning_tools(reminders: ReminderService) -> list[Tool]:
    """These tools, wired to their services."""

    async def remind(args: RemindArguments, call: Call) -> str:
        return await reminders.remind(
            args.message,
            delay_seconds=args.delay_seconds,
            at_unix_timestamp=args.at_unix_timestamp,
            key=call.key,
        )

    return [
        Tool(
            "remind",
            "Send yourself a message later: give exactly one of the two times, whole seconds. It survives "
            "restarts and comes to your inbox, from you; a text over 4 KiB as the path of its file.",
            RemindArguments,
            remind,
            reports_progress=False,
        ),
    ]
