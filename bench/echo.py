"""What MCP calls are compared with: the SDK's own server and transport, bare, and one tool that echoes.

Runs in a process of its own: `python -m bench.echo` prints the port it serves on.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

_STRING = {"type": "string"}
ECHO = types.Tool(
    name="echo",
    description="Echo.",
    input_schema={"type": "object", "properties": {"to": _STRING, "body": _STRING}, "required": ["body"]},
)


async def list_tools(
    _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """The one tool."""
    return types.ListToolsResult(tools=[ECHO])


async def call_tool(
    _context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """What came, as text."""
    body = str((params.arguments or {})["body"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=body)])


def main() -> None:
    """Serve until the parent ends this."""
    server: Server[Any] = Server("echo", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(stateless_http=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([listener])


@contextmanager
def running_echo() -> Iterator[str]:
    """The echo in a process of its own; its URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.echo"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
