"""A call that is answered past the SDK's transports is answered as they answer it, or left to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.mcp.intake import Intake
from shared.mcp.plain import PlainCalls

pytestmark = pytest.mark.anyio

MODERN, HANDSHAKE, FIRST = "2026-07-28", "2025-11-25", "2024-11-05"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
TOOL = "demo"
CLIENT = {"name": "suite", "version": "1"}
Context = ServerRequestContext[Any, Any]


class Strict(BaseModel):
    must: int


async def handle(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """As its argument says."""
    arguments = params.arguments or {}
    match arguments.get("do"):
        case "fail":
            raise MCPError(types.INVALID_PARAMS, "Unknown tool: x", {"more": None})
        case "invalid":
            Strict.model_validate({})
        case "ask":
            try:
                await context.session.send_request(types.PingRequest(), types.EmptyResult)
            except NoBackChannelError:
                text = "nobody answers"
        case "report":
            await context.session.report_progress(1, 2, "half")
            text = "reported"
        case _:
            known, request = context.session.client_params, context.request
            seen: list[Any] = [context.protocol_version, context.method, context.request_id, arguments]
            seen += [known.client_info.name if known else None, context.meta and dict(context.meta)]
            seen += [context.session.client_capabilities is not None, request and request.headers["x-own"]]
            text = json.dumps(seen, sort_keys=True)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=f"{text} é \N{SNOWMAN}")]
    return types.CallToolResult(content=content, structured_content={"a": {"b": None}}, is_error=True)


SERVER: Server[Any] = Server(TOOL, version="1", on_call_tool=handle, get_tool_input_schema=lambda _name: None)
SERVER.middleware.clear()


def request(era: str, *, do: str = "", **changed: Any) -> tuple[Scope, dict[str, Any]]:
    """A call in an era; `changed` are members of the message."""
    params: dict[str, Any] = {"name": TOOL, "arguments": {"do": do, "é": ["\N{SNOWMAN}"]}}
    named = {"mcp-protocol-version": era}
    if era == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": era,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": CLIENT,
            "progressToken": 3,
        }
        named |= {"mcp-method": "tools/call", "mcp-name": TOOL}
    headers = {
        "host": "127.0.0.1:1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "x-own": "own",
        **named,
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    return scope, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **changed}


def with_header(scope: Scope, name: str, value: str) -> Scope:
    """One header put in place of another."""
    others = [pair for pair in scope["headers"] if pair[0] != name.encode()]
    return {**scope, "headers": [*others, (name.encode(), value.encode())]}


async def ask(app: ASGIApp, scope: Scope, message: Mapping[str, Any]) -> tuple[int, str, Any]:
    """Status, content type and JSON of an answer."""
    sent: list[Message] = []
    received = [{"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}]

    async def receive() -> Message:
        if not received:
            await anyio.sleep_forever()
        return received.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    with anyio.fail_after(10):
        await app(scope, receive, send)
    body = b"".join(part["body"] for part in sent[1:])
    headers = dict(sent[0]["headers"])
    assert int(headers[b"content-length"]) == len(body)
    return sent[0]["status"], headers[b"content-type"].decode(), json.loads(body)


async def refuse(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Stands where the transports do, when they must not be asked."""
    pytest.fail("left to the transports")


PLAIN = PlainCalls(SERVER, tools=frozenset({TOOL}))


async def ask_both(scope: Scope, message: Mapping[str, Any]) -> tuple[Any, Any]:
    """What is answered past the transports, and by the SDK's own that answers with JSON."""
    own = await ask(Intake(refuse, plain=PLAIN), scope, message)
    manager = StreamableHTTPSessionManager(SERVER, json_response=True, stateless=True)
    async with manager.run():
        return own, await ask(manager.handle_request, scope, message)


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE, FIRST])
@pytest.mark.parametrize("do", ["", "fail", "invalid", "report", "ask"])
async def test_an_answer_is_the_one_that_the_transport_gives(era: str, do: str) -> None:
    own, theirs = await ask_both(*request(era, do=do))

    assert own == theirs
    assert own[2]["id"] == 7


@ERAS
@pytest.mark.parametrize(
    "change",
    [
        {"name": TOOL},
        {"name": TOOL, "arguments": None},
        {"name": TOOL, "more": 1},
        {"name": TOOL, "_meta": {}},
        {"name": TOOL, "_meta": {"progressToken": "p", "own": [1]}},
        {"name": TOOL, "inputResponses": 5},
        {"name": TOOL, "task": 5},
    ],
)
async def test_so_are_params_of_another_form(era: str, change: dict[str, Any]) -> None:
    scope, message = request(era)
    meta = {**message["params"].get("_meta", {}), **change.get("_meta", {})}
    changed = {**change, "_meta": meta} if era == MODERN or "_meta" in change else change

    own, theirs = await ask_both(scope, {**message, "params": changed})

    assert own == theirs


@ERAS
@pytest.mark.parametrize("request_id", ["seven", 0, -1, 2**62, ""])
async def test_so_is_a_request_id_of_another_kind(era: str, request_id: str | int) -> None:
    own, theirs = await ask_both(*request(era, id=request_id))

    assert own == theirs


async def test_so_is_a_call_that_names_no_revision() -> None:
    scope, message = request(HANDSHAKE)
    nameless = {**scope, "headers": [pair for pair in scope["headers"] if b"version" not in pair[0]]}

    own, theirs = await ask_both(nameless, message)

    assert own == theirs
    assert types.DEFAULT_NEGOTIATED_VERSION in own[2]["result"]["content"][0]["text"]


def is_taken(scope: Scope, message: Mapping[str, Any]) -> bool:
    return PLAIN.find(scope, message) is not None


@ERAS
def test_what_is_out_of_the_ordinary_is_left_to_the_transports(era: str) -> None:
    scope, message = request(era)
    assert is_taken(scope, message)

    assert not is_taken(with_header(scope, "accept", "application/json"), message)
    assert not is_taken(with_header(scope, "mcp-protocol-version", "2031-01-01"), message)
    assert not is_taken({**scope, "path": "/mcp/"}, message)
    assert not is_taken({**scope, "headers": [*scope["headers"], (b"accept", b"*/*")]}, message)
    assert not is_taken(scope, {**message, "method": "tools/list"})
    assert not is_taken(scope, {**message, "params": {**message["params"], "name": "other"}})
    assert not is_taken(scope, {**message, "id": 10**4_000})
    assert not is_taken(scope, {**message, "result": {}})
    assert not is_taken(scope, {name: value for name, value in message.items() if name != "id"})


@pytest.mark.parametrize(
    ("header", "value"), [("mcp-method", "tools/list"), ("mcp-name", "other"), ("mcp-name", "=?base64?!?=")]
)
def test_headers_that_contradict_the_body_are_left_to_the_transports(header: str, value: str) -> None:
    scope, message = request(MODERN)

    assert not is_taken(with_header(scope, header, value), message)


def test_a_call_without_its_envelope_is_left_to_the_transports() -> None:
    scope, message = request(MODERN)

    assert not is_taken(scope, {**message, "params": {"name": TOOL, "arguments": {}}})
