"""Broken and abusive HTTP, under a good credential: refused with a 4xx or cut off, whatever it is."""

from __future__ import annotations

import json

import pytest

from tests.e2e.hostile.surface import ERAS, PLANTED, Surface, call, request
from tests.support.claude import Era

PING = json.dumps(request("ping", id=PLANTED)).encode()
GET = "GET /healthz HTTP/1.1"
LONG = f"X-Flood: {PLANTED}{'f' * 2_000}"
CHUNKED = "Transfer-Encoding: chunked"
BOTH = pytest.mark.parametrize("era", ERAS)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"r" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"planted-7331\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET / HTTP/1.1\n\n",
        b"\r\n" * 40_000,
        b"GET /" + b"planted-7331" * 20_000,
    ],
    ids=["nul", "tls", "h2", "word", "verb", "http 0.9", "bare lf", "empty lines", "endless target"],
)
def test_what_is_no_http_is_refused(surface: Surface, data: bytes) -> None:
    replies = surface.exchange(data, b"\r\n\r\n" * 20_000)

    assert all(400 <= reply.status < 500 for reply in replies)


@pytest.mark.parametrize(
    "line",
    [
        "GET /healthz HTTP/9.9",
        "get /healthz HTTP/1.1",
        "PLANTED /mcp HTTP/1.1",
        "CONNECT elsewhere:1 HTTP/1.1",
        "TRACE /mcp HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PUT /mcp HTTP/1.1",
        "DELETE /mcp HTTP/1.1",
        "GET /health\x01z HTTP/1.1",
        "GET /\xe4 HTTP/1.1",
        "GET /%ff%fe%00%zz HTTP/1.1",
        "GET //healthz HTTP/1.1",
        "GET /../healthz HTTP/1.1",
        "GET /mcp/../api/state HTTP/1.1",
        "GET http://elsewhere/mcp/x HTTP/1.1",
        "GET /healthz  HTTP/1.1 HTTP/1.1",
    ],
)
def test_strange_request_lines_are_refused(surface: Surface, line: str) -> None:
    (reply,) = surface.exchange(surface.head(line) + b"\r\n")

    assert 400 <= reply.status < 500


@pytest.mark.parametrize(
    "headers",
    [
        ("Nonsense",),
        ("X-Space : x",),
        ("X-Fold: a\r\n b",),
        ("X-Nul: a\x00b",),
        ("X-Return: a\rb",),
        ("Host: localhost",),
        ("Authorization: Bearer x",),
        ("Origin: null",),
        (LONG,) * 40,
        ("a: b",) * 30_000,
        (f"X-Long: {PLANTED * 20_000}",),
        (f"{'x' * 100_000}: a",),
    ],
    ids=[
        *("no colon", "space", "fold", "nul", "cr", "two hosts", "two credentials", "origin"),
        *("flood", "many", "long value", "long name"),
    ],
)
def test_broken_and_endless_headers_are_refused(surface: Surface, headers: tuple[str, ...]) -> None:
    (reply,) = surface.exchange(
        surface.head(GET if "Bearer" not in headers[0] else "GET /api/state HTTP/1.1", *headers) + b"\r\n"
    )

    assert 400 <= reply.status < 500


@pytest.mark.parametrize(
    "lengths",
    [
        ("Content-Length: -1",),
        ("Content-Length: +5",),
        ("Content-Length: 0x5",),
        ("Content-Length: five",),
        ("Content-Length: 5, 5",),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5", CHUNKED),
        ("Content-Length: 9999999999",),
        ("Content-Length: 99999999999999999999999999",),
        ("Transfer-Encoding: planted",),
        ("Transfer-Encoding: chunked, gzip",),
        ("Transfer-Encoding: chunked, chunked",),
    ],
    ids=" | ".join,
)
def test_wrong_lengths_are_refused(surface: Surface, lengths: tuple[str, ...]) -> None:
    (reply,) = surface.exchange(surface.head("POST /mcp HTTP/1.1", *lengths) + b"\r\n" + PING)

    assert 400 <= reply.status < 500


@pytest.mark.parametrize(
    "body",
    [
        b"FFFFFFFFFFFFFFFFFF\r\n",
        b"-1\r\n",
        b"planted-7331\r\n",
        b"5\r\nabcdefgh\r\n0\r\n\r\n",
        b"5 planted-7331\r\nabcde\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"1\r\n{\r\n0\r\n\r\n",
        (b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 20 + b"0\r\n\r\n",
        b"1;" + b"planted-7331" * 20_000 + b"\r\n{\r\n0\r\n\r\n",
        b"1\r\n{\r\n0\r\n" + b"X-Planted: planted-7331\r\n" * 20_000 + b"\r\n",
    ],
    ids=[
        *("overflow", "negative", "word", "too short", "trailing", "empty", "cut json"),
        *("over the limit", "long extension", "trailers"),
    ],
)
def test_abused_chunks_are_refused(surface: Surface, body: bytes) -> None:
    replies = surface.exchange(surface.head("POST /mcp HTTP/1.1", CHUNKED) + b"\r\n" + body)

    assert all(400 <= reply.status < 500 for reply in replies)


def test_a_body_in_single_bytes_is_taken(surface: Surface) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in PING)
    head = surface.head("POST /mcp HTTP/1.1", CHUNKED) + b"\r\n"

    (reply,) = surface.exchange(
        head, *[chunks[index : index + 1] for index in range(len(chunks))], b"0\r\n\r\n"
    )

    assert reply.message["result"] == {}


def test_a_caller_who_asks_is_told_to_go_on(surface: Surface) -> None:
    with surface.connection() as wire:
        wire.send(
            surface.head("POST /mcp HTTP/1.1", "Expect: 100-continue", f"Content-Length: {len(PING)}")
            + b"\r\n"
        )
        assert wire.read_head().status == 100
        wire.send(PING)
        (reply,) = wire.read()

    assert reply.message["result"] == {}


def test_a_caller_whose_body_would_be_refused_is_not_told_to_go_on(surface: Surface) -> None:
    with surface.connection() as wire:
        wire.send(
            surface.head("POST /mcp HTTP/1.1", "Expect: 100-continue", "Content-Length: 9999999") + b"\r\n"
        )
        assert wire.read_head().status == 413


def test_pipelined_requests_are_answered_in_order(surface: Surface) -> None:
    calls = [surface.post(json.dumps(request("ping", id=number)).encode()) for number in range(50)]

    replies = surface.exchange(b"".join(calls), count=len(calls))

    assert [reply.message["id"] for reply in replies] == list(range(50))


def test_what_follows_a_body_is_another_request(surface: Surface) -> None:
    smuggled = surface.head(GET, "Host: elsewhere") + b"\r\n"

    replies = surface.exchange(surface.post(PING) + smuggled, count=2)

    assert [reply.status for reply in replies] == [200, 421]


def test_nonsense_behind_pipelined_requests_ends_the_connection(surface: Surface) -> None:
    with surface.connection() as wire:
        wire.send(surface.post(PING) * 20 + b"planted-7331\r\n\r\n")
        assert wire.finish()[-1].status == 400


def test_an_upgrade_is_not_taken(surface: Surface) -> None:
    key = "Sec-WebSocket-Key: cGxhbnRlZC03MzMxIQ=="
    (reply,) = surface.exchange(
        surface.head("GET /api/state HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", key) + b"\r\n"
    )

    assert reply.status == 200


@BOTH
def test_a_call_that_offers_an_upgrade_keeps_its_body(surface: Surface, era: Era) -> None:
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAB")
    calls = [surface.rpc(call("get_agent_meta", id=number), era, *offer) for number in (1, 2)]

    replies = surface.exchange(*calls, count=2)

    assert [reply.message["id"] for reply in replies] == [1, 2]


@pytest.mark.parametrize("path", ["//mcp", "/mcp/", "/nothing"])
def test_a_path_that_is_none_is_refused_in_our_own_shape(surface: Surface, path: str) -> None:
    (reply,) = surface.exchange(surface.head(f"GET {path} HTTP/1.1") + b"\r\n")

    assert (reply.status, reply.message["code"]) == (404, "not_found")
