"""Broken JSON and JSON-RPC in both eras: an error that says so, or dropped without effect."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.hostile.surface import ERAS, PLANTED, Surface, call, request, routing
from tests.support.access import LEGACY, MODERN
from tests.support.claude import Era
from tests.support.raw import Reply

CALL = call("set_status", text=PLANTED)
NUMBER = 4711
BOTH = pytest.mark.parametrize("era", ERAS)


def with_value(field: str, literal: bytes) -> bytes:
    """The call with `field` (an id or the text) as this literal, which may be no JSON."""
    message = call("set_status", id=NUMBER, text=PLANTED)
    old = str(NUMBER) if field == "id" else json.dumps(PLANTED)
    return json.dumps(message).encode().replace(old.encode(), literal)


def is_refused(reply: Reply) -> bool:
    """A 4xx, a JSON-RPC error, or a tool's own error."""
    message = reply.message
    if reply.status >= 400:
        return True
    return isinstance(message, dict) and (
        "error" in message or message.get("result", {}).get("isError") is True
    )


def is_dropped(reply: Reply) -> bool:
    return (reply.status, reply.body) == (202, b"")


def check_own_words(reply: Reply) -> None:
    """No text of the SDK's validator, no link, nothing of what was sent but an unknown method or tool."""
    text = json.dumps(reply.message.get("error", {}).get("message", ""))
    assert not re.search(r"https?://|pydantic|validation error|input_value|JSONRPC|\[type=", text), text
    assert PLANTED not in text


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "cut": json.dumps(CALL).encode()[:-1],
    "two values": json.dumps(CALL).encode() * 2,
    "no utf-8": b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff\xfe"}',
    "batch": json.dumps([CALL, CALL]).encode(),
    "empty batch": b"[]",
    "scalar": b"1",
    "null": b"null",
    "text": json.dumps(PLANTED).encode(),
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep argument": with_value("text", b"[" * 900 + b"]" * 900),
    "rather deep argument": with_value("text", b"[" * 180 + b"]" * 180),
    "nan": with_value("text", b"NaN"),
    "infinity": with_value("text", b"-Infinity"),
    "huge float": with_value("text", b"1e999"),
    "huge integer": with_value("text", b"9" * 5_000),
    "lone surrogate": with_value("text", b'"planted-7331 \\ud800"'),
    "lone surrogate as key": json.dumps(CALL).encode().replace(b'"text"', b'"te\\udfffxt"'),
    "nul": with_value("text", b'"planted-7331 \\u0000"'),
    "id of 5000 digits": with_value("id", b"9" * 5_000),
}


@BOTH
@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_call_is_refused(surface: Surface, era: Era, name: str) -> None:
    (reply,) = surface.exchange(surface.post(BODIES[name], *routing(CALL, era)))

    assert is_refused(reply), reply
    check_own_words(reply)


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": 5},
        {"method": None},
        {"method": "no/such-method"},
        {"method": "__init__"},
        {"method": PLANTED * 1_000},
        {"params": [PLANTED]},
        {"params": PLANTED},
        {"params": {"name": 5}},
        {"params": {"name": "set_status", "arguments": [PLANTED]}},
        {"params": {"name": "set_status", "arguments": {PLANTED: PLANTED}}},
        {"params": {"name": "no_such_tool", "arguments": {}}},
        {"params": {"name": "x" * 70_000}},
        {"params": {"name": "set_status", "arguments": {"text": "x"}, "_meta": PLANTED}},
        {"params": {"name": "set_status", "arguments": {"text": "x"}, "_meta": {"progressToken": {}}}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_a_call_of_another_form_is_refused(surface: Surface, era: Era, change: dict[str, Any]) -> None:
    message = {**CALL, **change}
    headers = [header for header in routing(message, era) if len(header) < 1_000]

    (reply,) = surface.exchange(surface.post(json.dumps(message).encode(), *headers))

    assert is_refused(reply), reply
    assert reply.message["id"] == CALL["id"]
    check_own_words(reply)


@pytest.mark.requirement("envelope.malformed")
@BOTH
@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        (json.dumps({**CALL, "jsonrpc": "1.0"}).encode(), -32600, 1),
        (json.dumps({**CALL, "id": 1.5}).encode(), -32600, None),
        (json.dumps({**CALL, "params": [PLANTED]}).encode(), -32602, 1),
        (with_value("text", b'"planted-7331 \\ud800"'), -32602, NUMBER),
    ],
)
def test_each_fault_has_the_code_of_the_specification_and_the_id_that_was_read(
    surface: Surface, era: Era, body: bytes, code: int, id_: int | None
) -> None:
    (reply,) = surface.exchange(surface.post(body, *routing(CALL, era)))

    assert (reply.message["error"]["code"], reply.message["id"]) == (code, id_)
    assert reply.status == (200 if era == LEGACY and code == -32602 else 400)
    check_own_words(reply)


@BOTH
@pytest.mark.parametrize("literal", [b"1.5", b"null", b"true", b"[]", b'{"planted-7331":1}', b"NaN"])
def test_a_call_whose_id_is_none_has_no_effect(surface: Surface, era: Era, literal: bytes) -> None:
    surface.exchange(surface.rpc(call("set_status", text="as before"), era))

    (reply,) = surface.exchange(surface.post(with_value("id", literal), *routing(CALL, era)))

    assert is_refused(reply) or is_dropped(reply), reply
    (meta,) = surface.exchange(surface.rpc(call("get_agent_meta"), era))
    assert meta.message["result"]["structuredContent"]["status_text"] == "as before"


@BOTH
@pytest.mark.parametrize("id_", [0, -1, 2**53 + 1, 2**63, 10**4_000, "", "planted-7331", "x" * 100_000])
def test_an_id_comes_back_as_it_was_sent(surface: Surface, era: Era, id_: Any) -> None:
    (reply,) = surface.exchange(surface.rpc(call("get_agent_meta", id=id_), era))

    assert reply.message["id"] == id_
    assert "error" not in reply.message


@BOTH
def test_of_two_equal_keys_one_counts(surface: Surface, era: Era) -> None:
    body = b'{"id":1,"method":"ping",' + json.dumps(call("get_agent_meta", id=2)).encode()[1:]

    (reply,) = surface.exchange(surface.post(body, *routing(call("get_agent_meta"), era)))

    assert reply.message["id"] == 2


@BOTH
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": PLANTED}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/no-such", "params": {"x": PLANTED}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": CALL["params"]},
    ],
    ids=lambda message: json.dumps(message)[:60],
)
def test_what_asks_for_no_answer_gets_none(surface: Surface, era: Era, message: dict[str, Any]) -> None:
    (reply,) = surface.exchange(surface.rpc(message, era))

    assert is_refused(reply) or is_dropped(reply), reply


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Mcp-Method: tools/call"],
        ["Mcp-Name: set_status"],
        ["Mcp-Method: tools/list", "Mcp-Name: set_status"],
        ["Mcp-Method: tools/call", "Mcp-Name: send"],
        ["Mcp-Method: tools/call", "Mcp-Method: tools/call", "Mcp-Name: set_status"],
        ["Mcp-Method: tools/call", f"Mcp-Name: {PLANTED}"],
        ["Mcp-Method: \xff", "Mcp-Name: \xff"],
    ],
    ids=" | ".join,
)
def test_modern_headers_must_match_the_body(surface: Surface, headers: list[str]) -> None:
    body = json.dumps(CALL).encode()

    (reply,) = surface.exchange(surface.post(body, f"MCP-Protocol-Version: {MODERN}", *headers))

    assert reply.status == 400


@pytest.mark.parametrize(
    "version", ["", "1", "2099-01-01", PLANTED, "9" * 5_000, "\xff", f"{MODERN}, {LEGACY}"]
)
def test_an_unknown_revision_is_refused(surface: Surface, version: str) -> None:
    headers = [f"MCP-Protocol-Version: {version}", "Mcp-Method: tools/call", "Mcp-Name: set_status"]

    (reply,) = surface.exchange(surface.post(json.dumps(CALL).encode(), *headers))

    assert reply.status == 400


@pytest.mark.parametrize("version", ["1999-01-01", "2099-01-01", "x" * 5_000])
def test_who_asks_for_an_unknown_revision_hears_which_there_are(surface: Surface, version: str) -> None:
    body = {"jsonrpc": "2.0", "id": CALL["id"], "method": "tools/list"}

    (reply,) = surface.exchange(surface.post(json.dumps(body).encode(), f"MCP-Protocol-Version: {version}"))

    error = reply.message["error"]
    assert (reply.status, error["code"], reply.message["id"]) == (400, -32022, CALL["id"])
    assert {MODERN, LEGACY} <= set(error["data"]["supported"])
    assert error["data"]["requested"] == version[:40]
    assert MODERN in error["message"]
    check_own_words(reply)


@pytest.mark.parametrize("versions", [(MODERN, LEGACY), (MODERN, MODERN)], ids=" then ".join)
def test_two_revisions_are_refused(surface: Surface, versions: tuple[str, str]) -> None:
    headers = [f"MCP-Protocol-Version: {version}" for version in versions]

    (reply,) = surface.exchange(surface.post(json.dumps(CALL).encode(), *headers, *routing(CALL, MODERN)[1:]))

    assert reply.status == 400


@pytest.mark.parametrize(
    "method", ["initialize", "logging/setLevel", "resources/read", "prompts/get", "tasks/list"]
)
@BOTH
def test_methods_that_are_not_ours_are_refused(surface: Surface, era: Era, method: str) -> None:
    (reply,) = surface.exchange(surface.rpc(request(method, planted=PLANTED), era))

    assert reply.message["error"]["code"] in (-32601, -32602)
