"""The in-agent socket: what any process in the agent's sandbox may ask of it. Identity is the socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from services.hyperhive_mcp.service.compaction import Compaction
from services.hyperhive_mcp.service.todos import TodoService
from shared.runtime.commands import Command, CommandTable
from shared.runtime.line_server import LineServer
from shared.runtime.unix_sockets import open_unix_listener
from shared.wire.model import WireRequest
from shared.wire.todos import ClearTodo, ListTodos, MarkTodosDone, UpsertTodo

# Enough for a thousand ordinary todos; a thousand of the longest would be thirty times as much.
MAX_LIST_BYTES: Final = 1024 * 1024


class NoFields(WireRequest):
    """Commands that take nothing."""


@dataclass(frozen=True)
class AgentSocket:
    """The socket's commands.

    Args:
        todos: the agent's todos.
        compaction: takes the wish to compact.
        describe: the agent's state, as `/api/state` shows it.
        stop: begins the end of this daemon.
    """

    todos: TodoService
    compaction: Compaction
    describe: Callable[[], Mapping[str, Any]]
    stop: Callable[[], None]

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[None]:
        """Serve at `path` in the block.

        Raises:
            HiveError: when it cannot be served there.
        """
        listener = open_unix_listener(path, setting="HIVE_AGENT_SOCKET")
        server = LineServer(listener, self._build().answer)
        await server.start()
        try:
            yield
        finally:
            await server.close()

    def _build(self) -> CommandTable:
        return CommandTable(
            {
                "upsert_todo": Command(UpsertTodo, self._upsert),
                "clear_todo": Command(ClearTodo, self._clear),
                "list_todos": Command(ListTodos, self._list),
                "mark_todos_done": Command(MarkTodosDone, self._mark_done),
                "compact": Command(NoFields, self._compact),
                "state": Command(NoFields, self._state),
                "graceful_stop": Command(NoFields, self._graceful_stop),
            }
        )

    async def _upsert(self, todo: UpsertTodo) -> Mapping[str, Any]:
        return {"id": await self.todos.upsert(todo)}

    async def _clear(self, request: ClearTodo) -> Mapping[str, Any]:
        return {"cleared": await self.todos.clear(request.subsystem, request.key)}

    async def _list(self, request: ListTodos) -> Mapping[str, Any]:
        todos = [todo for todo in await self.todos.list() if todo.id > (request.after or 0)]
        shown: list[dict[str, Any]] = []
        size = 0
        for todo in todos:
            # As it is written on the line, where all but ASCII is escaped.
            size += len(json.dumps(row := todo.model_dump(exclude_none=True)))
            if shown and size > MAX_LIST_BYTES:
                break
            shown.append(row)
        more = len(todos) - len(shown)
        return {"todos": shown, **({"more": more} if more else {})}

    async def _mark_done(self, request: MarkTodosDone) -> Mapping[str, Any]:
        return {"cleared": await self.todos.clear_ids(request.ids)}

    async def _compact(self, _request: NoFields) -> Mapping[str, Any]:
        await self.compaction.request()
        return {}

    async def _state(self, _request: NoFields) -> Mapping[str, Any]:
        return self.describe()

    async def _graceful_stop(self, _request: NoFields) -> Mapping[str, Any]:
        # Without a turn loop there is no turn to wait for. This answer is still given.
        self.stop()
        return {}
