"""How calls are answered: as JSON where only a result can come; what becomes of them when a caller leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from starlette.types import Message

from shared.mcp.arguments import ToolArguments
from shared.mcp.host import ToolHost
from shared.mcp.tool import Call, Tool

pytestmark = pytest.mark.anyio

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
BOTH = "application/json, text/event-stream"


class Empty(ToolArguments):
    """No arguments."""


class Demo:
    """A host with tools that answer, wait for ever, and report progress."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.cancelled = anyio.Event()
        tools = [
            Tool("quiet", "Answer.", Empty, self._answer, reports_progress=False),
            Tool("quiet_wait", "Wait.", Empty, self._wait, reports_progress=False),
            Tool("loud", "Answer.", Empty, self._report),
            Tool("loud_wait", "Wait.", Empty, self._wait),
        ]
        self.names = frozenset(tool.name for tool in tools)
        self.host = ToolHost("demo", version="1", tools=tools, visible=self._visible)

    async def _visible(self) -> frozenset[str]:
        return self.names

    async def _answer(self, _args: Empty, _call: Call) -> str:
        return "answered"

    async def _report(self, _args: Empty, call: Call) -> str:
        await call.report_progress(1, 1)
        return "answered"

    async def _wait(self, _args: Empty, _call: Call) -> str:
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()
        raise AssertionError

    async def call(self, era: str, tool: str, *, accept: str = BOTH) -> list[Message]:
        """One call, whose caller leaves once `begun` is set; all that was answered."""
        body, headers = _encode(era, tool, accept)
        received: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Message] = []
        finished = anyio.Event()

        async def receive() -> Message:
            if received:
                return received.pop()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_after, self.begun, tasks.cancel_scope)
                tasks.start_soon(_end_after, finished, tasks.cancel_scope)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                finished.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        with anyio.fail_after(10):
            async with self.host.run():
                await self.host.app(scope, receive, send)
                if self.begun.is_set():
                    await self.cancelled.wait()
        return sent


async def _end_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _encode(era: str, tool: str, accept: str) -> tuple[bytes, dict[str, str]]:
    params: dict[str, Any] = {"name": tool, "arguments": {}, "_meta": {"progressToken": 7}}
    headers = {
        "host": "127.0.0.1:1",
        "content-type": "application/json",
        "accept": accept,
        "mcp-protocol-version": era,
    }
    if era == MODERN:
        params["_meta"] |= {
            "io.modelcontextprotocol/protocolVersion": era,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message).encode(), headers


def kind_of(sent: list[Message]) -> tuple[int, str]:
    headers: Mapping[bytes, bytes] = dict(sent[0]["headers"])
    return sent[0]["status"], headers.get(b"content-type", b"").decode().partition(";")[0]


@ERAS
async def test_a_tool_that_reports_no_progress_is_answered_as_json(era: str) -> None:
    sent = await Demo().call(era, "quiet")

    assert kind_of(sent) == (200, "application/json")
    result = json.loads(b"".join(part["body"] for part in sent[1:]))
    assert result["id"] == 1
    assert result["result"]["content"][0]["text"] == "answered"


@ERAS
async def test_a_tool_that_reports_progress_is_answered_by_a_stream_that_has_it(era: str) -> None:
    sent = await Demo().call(era, "loud")

    assert kind_of(sent) == (200, "text/event-stream")
    assert b"notifications/progress" in b"".join(part["body"] for part in sent[1:])


@ERAS
@pytest.mark.parametrize("tool", ["quiet_wait", "loud_wait"])
async def test_a_call_whose_caller_leaves_is_cancelled(era: str, tool: str) -> None:
    demo = Demo()

    sent = await demo.call(era, tool)

    assert demo.cancelled.is_set()
    assert not any(b"result" in part.get("body", b"") for part in sent)


@ERAS
async def test_a_client_that_takes_no_event_stream_is_refused_as_ever(era: str) -> None:
    sent = await Demo().call(era, "quiet", accept="application/json")

    assert sent[0]["status"] == 406
