"""Tells the broker which todos are open, for the operator's eyes: at connect, and soon after each change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio
import structlog

from services.hyperhive_mcp.service.todos import TodoService
from shared.client import BrokerClient
from shared.errors import HiveError
from shared.prose import one_line
from shared.wire.control import Report
from shared.wire.todos import MAX_MIRRORED, MAX_MIRRORED_TEXT, MirroredTodo, Todo, TodoMirror

# However fast todos come and go, the broker hears of them so often at most.
PERIOD_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


class TodoReports:
    """Run `run` in a task. What cannot be told now is told at the next connect.

    Args:
        broker: who is told.
        todos: their service; its changes are heard.
        is_connected: whether the broker can be told.
        period_seconds: from one report to the next.
    """

    def __init__(
        self,
        broker: BrokerClient,
        todos: TodoService,
        *,
        is_connected: Callable[[], bool],
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._broker = broker
        self._todos = todos
        self._is_connected = is_connected
        self._period_seconds = period_seconds
        self._news = anyio.Event()
        todos.watch(self.note)

    def note(self) -> None:
        """Say that something has changed, or that the broker is there again."""
        self._news.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if not self._is_connected():
                continue
            try:
                await self._broker.report(await self._describe())
            except HiveError as exc:
                log.info("todos_not_reported", code=exc.code, reason=exc.message)
            await anyio.sleep(self._period_seconds)

    async def _describe(self) -> Report:
        todos = await self._todos.list()
        newest = [_shorten(todo) for todo in todos[-MAX_MIRRORED:]]
        mirror = TodoMirror(todos=newest, total=len(todos), as_of=int(time.time()))
        return Report(unit=self._broker.unit, boot=self._broker.boot, todos=mirror)


def _shorten(todo: Todo) -> MirroredTodo:
    detail = None if todo.detail is None else _cut(todo.detail)
    return MirroredTodo.model_validate({**todo.model_dump(), "summary": _cut(todo.summary), "detail": detail})


def _cut(text: str) -> str:
    return one_line(text, limit=MAX_MIRRORED_TEXT)
