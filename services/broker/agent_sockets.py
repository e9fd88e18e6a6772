"""The sockets `run/agents/<name>/mcp.sock`, one for each agent that lives. Identity is the socket."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import structlog

from services.broker.service.agents import AgentService
from services.broker.service.wakes import WakeService
from shared.errors import HiveError
from shared.layout import HiveLayout
from shared.runtime.commands import Command, CommandTable
from shared.runtime.line_server import LineServer
from shared.runtime.unix_sockets import open_unix_listener
from shared.wire.wakes import SocketWake

# For what nobody tells: agents that came and went at another broker, files that were removed.
POLL_SECONDS: Final = 5.0
# There are hundreds of sockets, with few callers each.
MAX_CONNECTIONS: Final = 16

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Served:
    """One agent's socket: whether its file is as it should be, and how to end it."""

    is_as_wanted: Callable[[], bool]
    close: Callable[[], Coroutine[Any, Any, None]]


class AgentSockets:
    """Run `run` in a task: it makes and removes sockets as agents come and go.

    Args:
        layout: where they lie.
        agents: knows who lives.
        wakes: takes what is asked.
    """

    def __init__(self, layout: HiveLayout, agents: AgentService, wakes: WakeService) -> None:
        self._layout = layout
        self._agents = agents
        self._wakes = wakes
        self._served: dict[tuple[int, str], _Served] = {}
        self._told: dict[tuple[int, str], str] = {}
        self._news = anyio.Event()
        agents.on_change = self.look

    def look(self) -> None:
        """Say that an agent has come or gone."""
        self._news.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                self._news = anyio.Event()
                try:
                    await self._adjust()
                except HiveError as exc:
                    _log.warning("agent_sockets_not_adjusted", code=exc.code, reason=exc.message)
                with anyio.move_on_after(POLL_SECONDS):
                    await self._news.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._close(list(self._served))

    async def _adjust(self) -> None:
        living = set(await self._agents.list_lives())
        await self._close([life for life, one in self._served.items() if not one.is_as_wanted()])
        await self._close([life for life in self._served if life not in living])
        self._told = {life: reason for life, reason in self._told.items() if life in living}
        for life in sorted(living - self._served.keys()):
            try:
                self._served[life] = await self._open(*life)
                self._told.pop(life, None)
            except HiveError as exc:
                if self._told.get(life) != exc.message:
                    _log.warning("agent_socket_failed", agent=life[1], code=exc.code, reason=exc.message)
                self._told[life] = exc.message

    async def _open(self, agent_id: int, name: str) -> _Served:
        path = self._layout.agent(name).core_socket
        listener = await anyio.to_thread.run_sync(partial(open_unix_listener, path, setting="HIVE_ROOT"))
        table = CommandTable({"wake": Command(SocketWake, partial(self._wake, agent_id, name))})
        server = LineServer(listener, table.answer, max_connections=MAX_CONNECTIONS)
        await server.start()
        return _Served(listener.is_as_wanted, server.close)

    async def _wake(self, agent_id: int, name: str, request: SocketWake) -> Mapping[str, Any]:
        sent = await self._wakes.wake(name, request, key=request.idempotency_key, agent_id=agent_id)
        return {"id": sent.id}

    async def _close(self, lives: list[tuple[int, str]]) -> None:
        async with anyio.create_task_group() as tasks:
            for life in lives:
                tasks.start_soon(self._served.pop(life).close)
