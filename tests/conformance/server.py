"""The tools that the conformance suite looks up, on our own MCP host, app and server; run as a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from fastapi import FastAPI
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import NotFound
from shared.mcp.arguments import ToolArguments
from shared.mcp.host import ToolHost
from shared.mcp.tool import Call, Tool
from shared.runtime.http import create_http_app
from shared.runtime.log import configure_logging
from shared.runtime.serve import serve

TOKEN: Final = "conformance-suite"
TEXT = "This is a simple text response for testing."
ERROR = "This tool intentionally returns an error for testing"


class Nothing(ToolArguments):
    """No arguments."""


class Mirrored(ToolArguments):
    """An argument that a client must repeat in a header."""

    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


async def _text(_args: Nothing, _call: Call) -> str:
    return TEXT


async def _refuse(_args: Nothing, _call: Call) -> str:
    raise NotFound(ERROR)


async def _mirrored(args: Mirrored, _call: Call) -> str:
    return f"the region is {args.region}"


async def _progress(_args: Nothing, call: Call) -> str:
    for done in (0, 50, 100):
        await call.report_progress(done, 100)
    return "all of it is done"


def build_app() -> tuple[ASGIApp, ToolHost]:
    """The app and its host."""

    async def notify(_args: Nothing, _call: Call) -> str:
        await host.notify_tools_changed()
        return "clients were told"

    tools = [
        # Of both kinds: each goes a way of its own.
        Tool("test_simple_text", "Answers.", Nothing, _text, read_only=True, reports_progress=False),
        Tool("test_error_handling", "Fails.", Nothing, _refuse, read_only=True, reports_progress=False),
        Tool("test_tool_with_progress", "Reports progress.", Nothing, _progress, read_only=True),
        Tool("test_mirrored_header", "Takes a region.", Mirrored, _mirrored, reports_progress=False),
        # What a log level or a capability of the client could bring about in others changes nothing here.
        Tool("test_logging_tool", "Answers with a text.", Nothing, _text, read_only=True),
        Tool("test_streaming_elicitation", "Reports progress.", Nothing, _progress, read_only=True),
        Tool("test_trigger_tool_change", "Tells of changed tools.", Nothing, notify),
    ]
    host = ToolHost("conformance", version="1", tools=tools, visible=lambda: _all(tools))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with host.run():
            yield

    async def authenticate(_path: str, token: str) -> object | None:
        return "suite" if token == TOKEN else None

    app = create_http_app(
        unit="conformance",
        lifespan=lifespan,
        authenticate=authenticate,
        ready=lambda: True,
        shortcut=host.before,
    )
    return WithCredential(app), host


async def _all(tools: list[Tool]) -> frozenset[str]:
    return frozenset(tool.name for tool in tools)


class WithCredential:
    """Puts in front of the guard what the suite has no option for: a credential."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]
        await self._app(scope, receive, send)


def main() -> None:
    """Serve on the socket that was passed, until SIGTERM."""
    configure_logging("conformance")
    app, host = build_app()
    serve(app, host="127.0.0.1", port=0, port_setting="none", on_stop=host.close_streams)


if __name__ == "__main__":
    main()
