"""What is no JSON-RPC message is told so by code, by words of our own, and by its id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

from shared.mcp.jsonrpc import Fault, parse_message

PLANTED = "planted-7331"
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "send", "arguments": {}}}


def fault_of(body: bytes | Any, *, is_handshake: bool = True) -> tuple[int, str, Any] | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = parse_message(raw, is_handshake=is_handshake)
    return (found.code, found.message, found.id) if isinstance(found, Fault) else None


@pytest.mark.parametrize(
    "message",
    [
        CALL,
        {**CALL, "id": "x"},
        {**CALL, "id": 10**4_000},
        {**CALL, "extra": 1},
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None},
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/list",
            "params": {"cursor": "c", "_meta": {"progressToken": 5}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call"},
    ],
)
def test_a_request_or_notification_has_no_fault(message: Any) -> None:
    assert fault_of(message) is None
    assert fault_of(message, is_handshake=False) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "EOF while parsing a value at line 1 column 0"),
        (json.dumps(CALL).encode()[:-1], "EOF while parsing an object"),
        (json.dumps(CALL).encode() * 2, "trailing characters"),
        (b'{"a":"' + PLANTED.encode() + b'\xff"}', "not UTF-8 at byte 18"),
        (json.dumps(CALL).encode("utf-16"), "not UTF-8"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"a":' + b"9" * 5_000 + b"}", "number out of range"),
        (PLANTED.encode(), "expected value"),
    ],
)
def test_what_cannot_be_parsed_has_no_id(body: bytes, words: str) -> None:
    code, message, request_id = fault_of(body) or pytest.fail("no fault")
    assert (code, request_id) == (PARSE_ERROR, None)
    assert words in message
    assert PLANTED not in message


@pytest.mark.parametrize(
    ("change", "words", "request_id"),
    [
        ({"jsonrpc": "1.0"}, '`jsonrpc` must be "2.0"', 7),
        ({"jsonrpc": None, "id": [PLANTED]}, "`jsonrpc`", None),
        ({"method": 5}, "`method`", 7),
        ({"method": None}, "`method`", 7),
        ({"id": None}, "`id` must be a string or a whole number", None),
        ({"id": 1.5}, "`id`", None),
        ({"id": True}, "`id`", None),
        ({"id": {PLANTED: 1}}, "`id`", None),
    ],
)
def test_what_is_no_request_is_told_which_part(change: Any, words: str, request_id: Any) -> None:
    code, message, found = fault_of({**CALL, **change}) or pytest.fail("no fault")
    assert (code, found) == (INVALID_REQUEST, request_id)
    assert words in message
    assert PLANTED not in message


@pytest.mark.parametrize(
    "body", [[CALL], [], 1, None, PLANTED, {}, {"jsonrpc": "2.0", "id": 7, "result": {}}]
)
def test_what_is_no_single_request_is_refused(body: Any) -> None:
    code, message, _ = fault_of(body) or pytest.fail("no fault")
    assert code == INVALID_REQUEST
    assert PLANTED not in message


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ([PLANTED], "`params` must be an object"),
        (PLANTED, "`params` must be an object"),
        (None, "`params.name` is missing; it must be a string"),
        ({}, "`params.name` is missing; it must be a string"),
        ({"name": [PLANTED]}, "`params.name` must be a string"),
        ({"name": "send", "arguments": [PLANTED]}, "`params.arguments` must be an object"),
        ({"name": "send", "_meta": PLANTED}, "`params._meta` must be an object"),
        ({"name": "send", "_meta": {"progressToken": {}}}, "`params._meta.progressToken` must be"),
    ],
)
def test_wrong_params_are_named_under_the_id(params: Any, words: str) -> None:
    code, message, request_id = fault_of({**CALL, "params": params}) or pytest.fail("no fault")
    assert (code, request_id) == (INVALID_PARAMS, 7)
    assert words in message
    assert PLANTED not in message


@pytest.mark.parametrize("literal", [b'"\\ud800"', b'"planted-7331 \\udfff x"', b"[" * 300 + b"]" * 300])
def test_text_that_is_no_unicode_and_deep_nesting_are_told_under_the_id(literal: bytes) -> None:
    body = json.dumps({**CALL, "params": {"name": "send", "arguments": {"text": 4711}}}).encode()
    code, message, request_id = fault_of(body.replace(b"4711", literal)) or pytest.fail("no fault")
    assert (code, request_id) == (INVALID_PARAMS, 7)
    assert "half a surrogate pair" in message or "nested too deeply" in message
    assert PLANTED not in message


def test_an_id_that_is_no_unicode_is_not_repeated() -> None:
    body = json.dumps({**CALL, "id": "\ud800"}).encode()
    assert fault_of(body) == (
        INVALID_REQUEST,
        "the message contains half a surrogate pair; send valid Unicode",
        None,
    )


def test_initialize_is_checked_in_its_own_era_alone() -> None:
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}
    assert fault_of(message) == (
        INVALID_PARAMS,
        "`params.protocolVersion` is missing; it must be a string",
        7,
    )
    assert fault_of(message, is_handshake=False) is None
