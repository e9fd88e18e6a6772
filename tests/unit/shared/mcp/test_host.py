"""The MCP host over its real ASGI app, in both protocol eras."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from shared.errors import NotFound
from shared.mcp.arguments import ToolArguments
from shared.mcp.host import ToolHost
from shared.mcp.tool import Call, Tool
from shared.wire.messages import MAX_RESULT_BYTES

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
SECRET = "planted-secret-4711"


class Empty(ToolArguments):
    """No arguments."""


class Text(ToolArguments):
    text: str


class Shape(BaseModel):
    name: str
    note: str | None = None


async def _echo(args: Text, call: Call) -> str:
    return f"{args.text} turn={call.turn}"


async def _shape(_args: Empty, _call: Call) -> Shape:
    return Shape(name="iris")


async def _refuse(_args: Empty, _call: Call) -> str:
    raise NotFound("no agent `irys`; did you mean `iris`?")


async def _break(_args: Empty, _call: Call) -> str:
    raise RuntimeError(SECRET)


async def _flood(_args: Empty, _call: Call) -> str:
    return "ä" * MAX_RESULT_BYTES


async def _flood_shape(_args: Empty, _call: Call) -> Shape:
    return Shape(name="x" * MAX_RESULT_BYTES)


async def _work(_args: Empty, call: Call) -> str:
    await call.report_progress(1, 2)
    await call.report_progress(2, 2, "done")
    return "worked"


TOOLS = [
    Tool("send", "Echo.", Text, _echo, reports_progress=False),
    Tool("get_agent_meta", "Shape.", Empty, _shape, result=Shape, read_only=True, reports_progress=False),
    Tool("refuse", "Refuse.", Empty, _refuse, reports_progress=False),
    Tool("break", "Break.", Empty, _break),
    Tool("work", "Work.", Empty, _work),
    Tool("flood", "Flood.", Empty, _flood, reports_progress=False),
    Tool("flood_shape", "Flood.", Empty, _flood_shape, result=Shape),
]


class Demo:
    """A host whose visible tools a test can change."""

    def __init__(self) -> None:
        self.names = frozenset(tool.name for tool in TOOLS)
        self.host = ToolHost("demo", version="1", tools=TOOLS, visible=self._visible)

    async def _visible(self) -> frozenset[str]:
        return self.names

    @asynccontextmanager
    async def client(self, era: str, **headers: str) -> AsyncIterator[Any]:
        transport = httpx2.ASGITransport(app=self.host.app)
        async with (
            self.host.run(),
            httpx2.AsyncClient(transport=transport, headers=headers) as http,
            Client(streamable_http_client("http://127.0.0.1:1/mcp", http_client=http), mode=era) as client,
        ):
            yield client


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@ERAS
async def test_prose_is_text_alone(era: str) -> None:
    async with Demo().client(era) as client:
        result = await client.call_tool("send", {"text": "hello"})
    assert text_of(result) == "hello turn=None"
    assert result.structured_content is None
    assert not result.is_error


@ERAS
async def test_a_shape_is_structured_and_the_same_json_as_text_without_absent_keys(era: str) -> None:
    async with Demo().client(era) as client:
        result = await client.call_tool("get_agent_meta", {})
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert result.structured_content == {"name": "iris"}
    assert text_of(result) == '{"name":"iris"}'
    assert listed["get_agent_meta"].output_schema["required"] == ["name"]
    assert listed["send"].output_schema is None


@ERAS
async def test_an_expected_error_tells_the_model_what_is_right(era: str) -> None:
    async with Demo().client(era) as client:
        result = await client.call_tool("refuse", {})
    assert result.is_error
    assert text_of(result) == "no agent `irys`; did you mean `iris`?"


@ERAS
async def test_a_bugs_text_never_reaches_a_model(era: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with Demo().client(era) as client:
        result = await client.call_tool("break", {})
    assert result.is_error
    assert SECRET not in text_of(result)
    assert "operator" in text_of(result)


@ERAS
async def test_wrong_arguments_are_answered_with_the_signature(era: str) -> None:
    async with Demo().client(era) as client:
        result = await client.call_tool("send", {"text": 3, "more": 1})
    assert result.is_error
    assert "send(text: string)" in text_of(result)


@ERAS
async def test_an_unknown_tool_is_a_protocol_error(era: str) -> None:
    async with Demo().client(era) as client:
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})


@ERAS
async def test_a_tool_taken_away_is_gone_from_the_list_and_its_call_names_the_group(era: str) -> None:
    demo = Demo()
    async with demo.client(era) as client:
        demo.names -= {"send"}
        listed = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("send", {"text": "x"})
    assert "send" not in listed
    assert result.is_error
    assert "`messaging`" in text_of(result)


@ERAS
async def test_prose_over_the_limit_is_cut_at_a_character(era: str) -> None:
    async with Demo().client(era) as client:
        text = text_of(await client.call_tool("flood", {}))
    assert MAX_RESULT_BYTES - 4 < len(text.encode()) <= MAX_RESULT_BYTES
    assert text.endswith(f"[cut: the answer was over {MAX_RESULT_BYTES} bytes]")


@ERAS
async def test_a_shape_over_the_limit_is_an_error_not_half_a_json(era: str) -> None:
    async with Demo().client(era) as client:
        result = await client.call_tool("flood_shape", {})
    assert result.is_error
    assert str(MAX_RESULT_BYTES) in text_of(result)


@ERAS
@pytest.mark.parametrize(("header", "seen"), [("turn-7", "turn-7"), ("../x", "None"), ("x" * 65, "None")])
async def test_the_turn_header_reaches_the_handler_only_when_well_formed(
    era: str, header: str, seen: str
) -> None:
    async with Demo().client(era, **{"x-hive-turn": header}) as client:
        assert text_of(await client.call_tool("send", {"text": "t"})) == f"t turn={seen}"


@ERAS
async def test_progress_reaches_the_client_that_asked_for_it(era: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Demo().client(era) as client:
        assert text_of(await client.call_tool("work", {}, progress_callback=hear)) == "worked"
        assert text_of(await client.call_tool("work", {})) == "worked"
    assert heard == [(1, 2, None), (2, 2, "done")]
