"""Tells the broker which todos are open, for the operator's eyes."""

from __future__ import annotations

import time
from collections.abc import Callable

from services.hyperhive_mcp.service.todos import TodoService
from shared.client import BrokerClient
from shared.daemon.reports import PERIOD_SECONDS, PacedReports
from shared.prose import one_line
from shared.wire.control import Report
from shared.wire.todos import MAX_MIRRORED, MAX_MIRRORED_TEXT, MirroredTodo, Todo, TodoMirror


class TodoReports(PacedReports):
    """The newest todos; their service's changes are heard."""

    def __init__(
        self,
        broker: BrokerClient,
        todos: TodoService,
        *,
        is_connected: Callable[[], bool],
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        async def describe() -> Report:
            listed = await todos.list()
            newest = [_shorten(todo) for todo in listed[-MAX_MIRRORED:]]
            mirror = TodoMirror(todos=newest, total=len(listed), as_of=int(time.time()))
            return Report(unit=broker.unit, boot=broker.boot, todos=mirror)

        super().__init__(broker, describe, is_connected=is_connected, period_seconds=period_seconds)
        todos.watch(self.note)


def _shorten(todo: Todo) -> MirroredTodo:
    detail = None if todo.detail is None else _cut(todo.detail)
    return MirroredTodo.model_validate({**todo.model_dump(), "summary": _cut(todo.summary), "detail": detail})


def _cut(text: str) -> str:
    return one_line(text, limit=MAX_MIRRORED_TEXT)
