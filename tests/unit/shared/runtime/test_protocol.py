"""Limits on what comes before, between and after bodies, on raw sockets."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from shared.runtime.protocol import MAX_HEAD_BYTES, LimitedProtocol
from tests.unit.shared.serving import Served, serving

FLOOD = b"X-Flood: " + b"f" * 991 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class HastyProtocol(LimitedProtocol):
    """Waits for no head."""

    head_seconds = 0.05


async def tell_headers(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the names of the headers, as they stand once the body was read, or with one's value."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    request = Request(scope, receive)
    await request.body()
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


def test_a_flood_of_headers_in_one_read_is_refused(served: Served) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + FLOOD * (MAX_HEAD_BYTES // len(FLOOD) + 1) + b"\r\n"

    assert served.raw(head)[0] == 431


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
    assert read_to_end(hasty, *parts).endswith(
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )


def test_a_body_may_take_longer_than_a_head(hasty: Served) -> None:
    with socket.create_connection((hasty.host, hasty.port), timeout=10) as slow:
        slow.sendall(CHUNKED + b"1\r\nx\r\n")
        # By the time this other connection was given up, the first one had had as long.
        read_to_end(hasty, b"GET")
        slow.sendall(b"0\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200 ")


def test_an_upgrade_is_answered_without_it(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

    assert served.raw(upgrade)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_blanks_around_a_value_are_not_part_of_it(served: Served) -> None:
    _, _, body = served.raw(b"GET /value HTTP/1.1\r\nHost: x\r\nX-Value: \t a b \t \r\n\r\n")

    assert body == b'"a b"'
