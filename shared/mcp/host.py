"""The MCP host: one lowlevel server per surface, stateless, both protocol eras on one endpoint.

It knows tools, visibility and the envelope every call runs in. It does not know what a tool does, who may
call it (a callable decides) or how the process is served. Above it: a unit's `tools`; below it: the mcp SDK.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import structlog
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import Forbidden, HiveError, OutcomeUnknown
from shared.mcp.arguments import compact_schema, parse_arguments
from shared.mcp.intake import Intake
from shared.mcp.plain import PATH, PlainCalls
from shared.mcp.result import failure, prose, shape, size_of
from shared.mcp.streams import IdleStreams
from shared.mcp.tool import Call, Tool
from shared.permissions import explain_missing_tool
from shared.runtime.ids import new_ulid

TOOL_DEADLINE_SECONDS = 35
MAX_LISTEN_STREAMS = 64
TURN_HEADER = "x-hive-turn"
# Marks an argument that a client must repeat in a header (MCP 2026-07-28).
_HEADER_KEY = "x-mcp-header"

Context = ServerRequestContext[Any, Any]
_TURN = re.compile(r"[A-Za-z0-9_-]{1,64}")
log = structlog.get_logger(__name__)


class ToolHost:
    """Serves `tools` at `/mcp` of the ASGI app it builds.

    Args:
        name: the surface's name, as in `mcp.json`.
        version: reported to clients.
        tools: all tools, visible or not.
        visible: the names the agent may use now; awaited on every list and call.
        explain: why a tool is not among them, and what would help.
        instructions: one short text for the model, or None.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        tools: Sequence[Tool],
        visible: Callable[[], Awaitable[frozenset[str]]],
        explain: Callable[[str], str] = explain_missing_tool,
        instructions: str | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._definitions = {tool.name: _define(tool) for tool in tools}
        schemas = {name: tool.input_schema for name, tool in self._definitions.items()}
        self._mirroring = {name: schema for name, schema in schemas.items() if _HEADER_KEY in str(schema)}
        self._visible = visible
        self._explain = explain
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=MAX_LISTEN_STREAMS)
        self._server: Server[Any] = Server(
            name,
            version=version,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=self._input_schema,
        )
        # Spans could carry what callers send, and cost time in every request.
        self._server.middleware.clear()
        self._idle = IdleStreams(self._server.streamable_http_app(stateless_http=True))
        quiet = {tool.name for tool in tools if not tool.reports_progress}
        plain = PlainCalls(self._server, tools=frozenset(quiet - self._mirroring.keys()))
        self.app: ASGIApp = Intake(self._idle, plain=plain)

    def before(self, app: ASGIApp) -> ASGIApp:
        """`app`, with `/mcp` answered before it: for `create_http_app`, as its shortcut."""

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            mine = scope["type"] == "http" and scope["path"] == PATH
            await (self.app if mine else app)(scope, receive, send)

        return choose

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Hold the transports open; enter once, in the app's lifespan."""
        async with self._server.session_manager.run():
            yield

    def close_streams(self) -> None:
        """End the streams that clients hold open to hear of changes: a stop need not wait for them."""
        self._listen.close()
        self._idle.close()

    async def notify_tools_changed(self) -> None:
        """Tell modern clients to list again; those of the handshake era see the change at their next list."""
        await self._bus.publish(ToolsListChanged())

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema by which the SDK checks headers that repeat arguments: of tools that have such alone."""
        return self._mirroring.get(name)

    async def _list_tools(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        names = await self._visible()
        return types.ListToolsResult(tools=[d for name, d in self._definitions.items() if name in names])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        return await self._envelope(tool, params.arguments, _describe_call(ctx))

    async def _envelope(
        self, tool: Tool, arguments: dict[str, Any] | None, call: Call
    ) -> types.CallToolResult:
        """Log the request, run the handler, log the result: sizes, never bodies."""
        started = time.monotonic()
        call_log = log.bind(tool=tool.name, call=call.key)
        call_log.info("tool_called", argument_bytes=size_of(arguments or {}))
        try:
            result = await self._run(tool, arguments, call)
        except HiveError as exc:
            result = failure(exc.message)
            outcome = exc.code
        except Exception:  # the last line of defence: a bug's text must not reach a model
            log.exception("tool_failed", tool=tool.name, call=call.key)
            result = failure(
                f"{tool.name} failed inside hyperhive; the operator finds why in the log, at call {call.key}"
            )
            outcome = "internal"
        else:
            outcome = "ok"
        # In the loop's next turn: by then the answer has left, and nobody waits for this line.
        note = partial(
            call_log.info,
            "tool_answered",
            outcome=outcome,
            result_bytes=size_of(result.content),
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        asyncio.get_running_loop().call_soon(note)
        return result

    async def _run(self, tool: Tool, arguments: dict[str, Any] | None, call: Call) -> types.CallToolResult:
        if tool.name not in await self._visible():
            raise Forbidden(self._explain(tool.name))
        parsed = parse_arguments(tool.name, tool.arguments, arguments)
        answer: str | BaseModel | None = None
        with anyio.move_on_after(TOOL_DEADLINE_SECONDS):
            answer = await tool.handler(parsed, call)
        if answer is None:
            raise OutcomeUnknown(
                f"{tool.name} gave no answer within {TOOL_DEADLINE_SECONDS} s; it may or may not have taken "
                "effect, so look before you repeat it"
            )
        return shape(tool.name, answer) if isinstance(answer, BaseModel) else prose(answer)


def _describe_call(ctx: Context) -> Call:
    turn = caller = None
    if ctx.request is not None:
        named = ctx.request.headers.get(TURN_HEADER, "")
        turn = named if _TURN.fullmatch(named) else None
        caller = getattr(ctx.request.state, "caller", None)
    return Call(key=new_ulid(), turn=turn, caller=caller, report_progress=ctx.session.report_progress)


def _define(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=compact_schema(tool.arguments),
        output_schema=None if tool.result is None else compact_schema(tool.result),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=False,
            idempotent_hint=tool.idempotent or tool.read_only,
            open_world_hint=False,
        ),
    )
