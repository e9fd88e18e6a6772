"""Tools of the group `scheduling`: arguments, the copy a model reads, one service call each."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from services.hyperhive_mcp.service.schedules import ScheduleService
from services.hyperhive_mcp.tools.planning import NoArguments, RowId, Seconds
from shared.mcp.arguments import ToolArguments
from shared.mcp.tool import Call, Tool
from shared.wire.model import check_content
from shared.wire.schedules import (
    MAX_TARGETS,
    CancelSchedule,
    Description,
    EditSchedule,
    RequestSchedule,
    ScheduleList,
)

Target = Annotated[str, Field(min_length=1, max_length=200)]
Targets = Annotated[list[Target], Field(min_length=1, max_length=MAX_TARGETS)]
Prompt = Annotated[str, AfterValidator(check_content)]
# With null as a value of its own, which a schema made from the types would lose.
Interval = Annotated[
    Seconds | None, WithJsonSchema({"type": ["integer", "null"], "description": "null: once only"})
]


class RequestArguments(ToolArguments):
    """Arguments of `request_schedule_prompt`."""

    targets: Annotated[Targets, Field(description="yourself or agents below you")]
    body: Annotated[Prompt, Field(description="at most 16 KiB")]
    first_fire_at_unix: Seconds
    interval_seconds: Annotated[Seconds | None, Field(description="at least 60; default: once")] = None
    description: Annotated[Description | None, Field(description="one line")] = None


class EditArguments(ToolArguments):
    """Arguments of `edit_schedule`."""

    id: RowId
    targets: Targets | None = None
    body: Prompt | None = None
    first_fire_at_unix: Seconds | None = None
    interval_seconds: Interval = None
    description: Description | None = None


class CancelScheduleArguments(ToolArguments):
    """Arguments of `cancel_schedule`."""

    id: RowId
    targets: Annotated[Targets | None, Field(description="default: all")] = None


class ScheduleArguments(ToolArguments):
    """For tools that take one schedule."""

    id: RowId


def build_schedule_tools(schedules: ScheduleService) -> list[Tool]:
    """These tools, wired to their service."""

    async def request_schedule_prompt(args: RequestArguments, call: Call) -> str:
        return await schedules.request(RequestSchedule(**args.model_dump()), key=call.key)

    async def edit_schedule(args: EditArguments, call: Call) -> str:
        given = args.model_dump(exclude={"id"}, exclude_unset=True)
        is_once = "interval_seconds" in given and given["interval_seconds"] is None
        return await schedules.edit(args.id, EditSchedule(**given, one_shot=is_once), key=call.key)

    async def cancel_schedule(args: CancelScheduleArguments, call: Call) -> str:
        return await schedules.cancel(args.id, CancelSchedule(targets=args.targets), key=call.key)

    async def fire_schedule_now(args: ScheduleArguments, call: Call) -> str:
        return await schedules.fire(args.id, key=call.key)

    async def list_schedules(_args: NoArguments, _call: Call) -> ScheduleList:
        return await schedules.list()

    return [
        Tool(
            "request_schedule_prompt",
            "Ask the operator to let a prompt go to agents at a time, and again every interval. Nothing "
            "fires before they approve it; approved late, it fires at once.",
            RequestArguments,
            request_schedule_prompt,
            reports_progress=False,
        ),
        Tool(
            "edit_schedule",
            "Change parts of a schedule. Another body, more targets, sooner or more often waits for the "
            "operator's approval; anything else counts at once.",
            EditArguments,
            edit_schedule,
            reports_progress=False,
        ),
        Tool(
            "cancel_schedule",
            "End a schedule for good, or leave targets out of it; also what of it still waits.",
            CancelScheduleArguments,
            cancel_schedule,
            reports_progress=False,
        ),
        Tool(
            "fire_schedule_now",
            "Fire an approved schedule now: in addition to its times, or, when it fires once, instead.",
            ScheduleArguments,
            fire_schedule_now,
            reports_progress=False,
        ),
        Tool(
            "list_schedules",
            "List your schedules and those of agents below you.",
            NoArguments,
            list_schedules,
            result=ScheduleList,
            read_only=True,
            reports_progress=False,
        ),
    ]
