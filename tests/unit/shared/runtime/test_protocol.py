"""Limits on what comes before, between and after bodies, on raw sockets."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shared.runtime.protocol import MAX_HEAD_BYTES, LimitedProtocol
from tests.unit.shared.serving import Served, serving

FLOOD = b"X-Flood: " + b"f" * 991 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class HastyProtocol(LimitedProtocol):
    """Waits for no head."""

    head_seconds = 0.05


async def endless() -> AsyncIterator[bytes]:
    """One piece, and then none."""
    yield b"first"
    await anyio.sleep_forever()


async def tell_headers(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the names of the headers, as they stand once the body was read, or with one's value."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    request = Request(scope, receive)
    body = await request.body()
    if request.url.path == "/echo":
        await Response(body)(scope, receive, send)
        return
    if request.url.path == "/never":
        await anyio.sleep_forever()
    if request.url.path == "/stream":
        await StreamingResponse(endless())(scope, receive, send)
        return
    told = request.headers["x-value"] if request.url.path == "/value" else sorted(set(request.headers))
    await JSONResponse(told)(scope, receive, send)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(tell_headers) as running:
        yield running


@pytest.fixture(scope="module")
def hasty() -> Iterator[Served]:
    with serving(tell_headers, protocol=HastyProtocol) as running:
        yield running


def read_to_end(served: Served, *parts: bytes) -> bytes:
    """Send, then read until the server closes; what it does not take any more is not sent."""
    with socket.create_connection((served.host, served.port), timeout=10) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except OSError:
            pass
        heard = b""
        try:
            while data := connection.recv(65_536):
                heard += data
        except ConnectionResetError:
            pass
        return heard


def read_error(heard: bytes) -> tuple[bytes, str]:
    """Status line and code of the last answer, which must be in our own shape."""
    head, _, body = heard.rpartition(b"\r\n\r\n")
    told = json.loads(body)
    assert told.keys() == {"code", "message", "details", "request_id"}
    assert b"\r\nConnection: close\r\nContent-Type: application/json" in head
    return head[head.rindex(b"HTTP/1.1 ") :].partition(b"\r\n")[0], told["code"]


def test_a_flood_of_headers_in_one_read_is_refused(served: Served) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + FLOOD * (MAX_HEAD_BYTES // len(FLOOD) + 1) + b"\r\n"

    status, code = read_error(read_to_end(served, head))

    assert (status, code) == (b"HTTP/1.1 431 Request Header Fields Too Large", "limit_exceeded")


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"nonsense\r\n\r\n", b"400 Bad Request", "invalid_input"),
        (b"GET / HTTP/9.9\r\n\r\n", b"400 Bad Request", "invalid_input"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400 Bad Request", "invalid_input"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400 Bad Request", "invalid_input"),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"400 Bad Request",
            "invalid_input",
        ),
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", b"400 Bad Request", "invalid_input"),
    ],
    ids=["no HTTP", "version", "HTTP/2", "header", "two lengths", "tunnel"],
)
def test_what_is_no_request_is_refused_in_our_own_shape(
    served: Served, request_: bytes, status: bytes, code: str
) -> None:
    assert read_error(read_to_end(served, request_)) == (b"HTTP/1.1 " + status, code)


def test_a_head_within_the_limit_is_served(served: Served) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + FLOOD * (MAX_HEAD_BYTES // len(FLOOD) - 1) + b"\r\n"

    assert served.raw(head)[0] == 200


@pytest.mark.parametrize(
    "start",
    [b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ", CHUNKED + b"1;", CHUNKED + b"0\r\nX-Long: "],
    ids=["target", "header", "chunk extension", "trailer"],
)
def test_what_has_no_end_is_cut(served: Served, start: bytes) -> None:
    heard = read_to_end(served, start, *[b"a" * 65_536] * 64)

    # The refusal may be lost to the reset that what was still under way brings about.
    assert heard == b"" or heard.startswith(b"HTTP/1.1 431 ")


def test_trailers_are_no_headers(served: Served) -> None:
    _, _, body = served.raw(CHUNKED + b"1\r\nx\r\n0\r\nX-Hive-Turn: forged\r\nAuthorization: forged\r\n\r\n")

    assert body == b'["host","transfer-encoding"]'


def test_a_flood_of_trailers_is_cut(served: Served) -> None:
    heard = read_to_end(served, CHUNKED + b"0\r\n", *[FLOOD * 64] * 64)

    assert b"200 OK" not in heard


@pytest.mark.parametrize(
    "parts",
    [
        (b"",),
        (b"GET / HTT",),
        (b"GET / HTTP/1.1\r\nHost: x\r\n",),
        (b"\r\n",),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET"),
    ],
    ids=["nothing", "half a line", "half a head", "an empty line", "half a second request"],
)
def test_a_head_that_does_not_come_is_not_waited_for(hasty: Served, parts: Any) -> None:
    status, code = read_error(read_to_end(hasty, *parts))

    assert (status, code) == (b"HTTP/1.1 408 Request Timeout", "timeout")


def test_a_body_may_take_longer_than_a_head(hasty: Served) -> None:
    with socket.create_connection((hasty.host, hasty.port), timeout=10) as slow:
        slow.sendall(CHUNKED + b"1\r\nx\r\n")
        # By the time this other connection was given up, the first one had had as long.
        read_to_end(hasty, b"GET")
        slow.sendall(b"0\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200 ")


OFFERS = pytest.mark.parametrize(
    "offer",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n",
        b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n",
        b"upgrade: TLS/1.0, h2c\r\nconnection: upgrade\r\n",
    ],
    ids=["h2c", "websocket", "two"],
)
ECHO = b"POST /echo HTTP/1.1\r\nHost: x\r\n"


@OFFERS
def test_an_upgrade_is_answered_without_it(
    served: Served, caplog: pytest.LogCaptureFixture, offer: bytes
) -> None:
    assert served.raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\n")[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "body", [b"Content-Length: 4\r\n\r\nbody", b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"]
)
@OFFERS
def test_a_request_that_offers_an_upgrade_keeps_its_body_and_connection(
    served: Served, offer: bytes, body: bytes
) -> None:
    request = ECHO + offer + body
    last = b"GET /value HTTP/1.1\r\nHost: x\r\nX-Value: last\r\nConnection: close\r\n\r\n"

    heard = read_to_end(served, request * 3 + last)

    assert heard.count(b"HTTP/1.1 200 OK") == 4
    assert heard.count(b"\r\n\r\nbodyHTTP/1.1") == 3
    assert heard.endswith(b'"last"')


@OFFERS
def test_a_request_that_comes_in_pieces_with_an_offer_is_answered(served: Served, offer: bytes) -> None:
    with socket.create_connection((served.host, served.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in ECHO + offer + b"Connection: close\r\nContent-Length: 4\r\n\r\nbody":
            connection.sendall(bytes([byte]))
        heard = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert heard.endswith(b"\r\n\r\nbody")


def half_close(served: Served, sent: bytes) -> bytes:
    with socket.create_connection((served.host, served.port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /",
        ECHO + b"Content-Length: 4\r\n\r\nbo",
        b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /never HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "a wait", "a call"],
)
def test_who_says_no_more_is_taken_for_gone(served: Served, sent: bytes) -> None:
    assert half_close(served, sent) == b""


def test_a_stream_ends_when_its_reader_says_no_more(served: Served) -> None:
    with socket.create_connection((served.host, served.port), timeout=10) as connection:
        connection.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        heard = b""
        while b"first" not in heard:
            heard += connection.recv(65_536)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_blanks_around_a_value_are_not_part_of_it(served: Served) -> None:
    _, _, body = served.raw(b"GET /value HTTP/1.1\r\nHost: x\r\nX-Value: \t a b \t \r\n\r\n")

    assert body == b'"a b"'
