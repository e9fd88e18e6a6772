"""Todos and compaction: arguments, the copy a model reads, one service call each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from services.hyperhive_mcp.service.compaction import Compaction
from services.hyperhive_mcp.service.todos import TodoService
from shared.mcp.arguments import WHOLE, ToolArguments
from shared.mcp.tool import Call, Tool
from shared.prose import count
from shared.wire.model import MAX_ID
from shared.wire.todos import MAX_IDS

TodoId = Annotated[int, Field(ge=1, le=MAX_ID), WHOLE]


class DoneArguments(ToolArguments):
    """Arguments of `mark_todos_done`."""

    ids: Annotated[list[TodoId], Field(min_length=1, max_length=MAX_IDS)]


class NoArguments(ToolArguments):
    """For tools that take none."""


def build_todo_tools(todos: TodoService, compaction: Compaction) -> list[Tool]:
    """These tools, wired to their services."""

    async def mark_todos_done(args: DoneArguments, _call: Call) -> str:
        done = len(await todos.clear_ids(args.ids))
        skipped = len(set(args.ids)) - done
        return f"{count(done, 'todo')} done." + (f" {skipped} not open, skipped." if skipped else "")

    async def compact(_args: NoArguments, _call: Call) -> str:
        await compaction.request()
        return "The context is compacted at the end of this turn."

    return [
        Tool(
            "mark_todos_done",
            "Clear todos that you have dealt with, by their ids; ids that are not open are skipped.",
            DoneArguments,
            mark_todos_done,
            idempotent=True,
            reports_progress=False,
        ),
        Tool(
            "compact",
            "Have your context compacted at the end of this turn; refused unless it is over 66 % full.",
            NoArguments,
            compact,
            idempotent=True,
            reports_progress=False,
        ),
    ]
