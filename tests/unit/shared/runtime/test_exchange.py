"""One request and its answer: where answers end, which connections are used again, what is no answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import anyio
import pytest
from anyio.abc import SocketStream

from shared.runtime import exchange
from shared.runtime.exchange import Answer, NoAnswer, Peer
from tests.support.ports import free_port
from tests.unit.shared.scripted import (
    Heard,
    ScriptedBroker,
    Step,
    answer,
    break_off,
    hang,
    scripted,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[str], Peer]]:
    peers: list[Peer] = []

    def build(url: str) -> Peer:
        peers.append(Peer(url))
        return peers[-1]

    with anyio.fail_after(15):
        yield build
        for peer in peers:
            peer.close()
        await anyio.lowlevel.checkpoint()


async def get(peer: Peer, left: list[str] | None = None) -> Answer:
    """A GET of `/a`; notes when it leaves."""
    return await peer.ask(
        peer.encode("GET", "/a", {"X-Kind": "test"}, None), on_leaving=lambda: (left or []).append("left")
    )


def raw(*pieces: bytes, close: bool = False) -> Step:
    """Answer these very bytes, each piece by itself."""

    async def step(stream: SocketStream, _heard: Heard) -> None:
        for piece in pieces:
            await stream.send(piece)
            await anyio.lowlevel.checkpoint()
        if close:
            await stream.aclose()

    return step


class Counted:
    """Counts the connections that a scripted broker has seen by their ports."""

    def __init__(self, then: Step) -> None:
        self.streams: list[SocketStream] = []
        self._then = then

    async def __call__(self, stream: SocketStream, heard: Heard) -> None:
        if stream not in self.streams:
            self.streams.append(stream)
        await self._then(stream, heard)


async def test_requests_say_what_they_are_told_to(connect: Callable[[str], Peer]) -> None:
    async with scripted(answer(200, {})) as broker:
        peer = connect(f"{broker.url}/below/")
        request = peer.encode("POST", "/a?b=c", {"X-Kind": "test"}, b"{}")

        await peer.ask(request, on_leaving=lambda: None)

    heard = broker.heard[0]
    assert (heard.method, heard.target, heard.body) == ("POST", "/below/a?b=c", b"{}")
    assert heard.headers["x-kind"] == "test"
    assert heard.headers["host"] == f"127.0.0.1:{broker.port}"


@pytest.mark.parametrize("broken", ["a\r\nX-Evil: 1", "a\nb", "a\rb"])
async def test_a_header_cannot_hold_another_one(broken: str, connect: Callable[[str], Peer]) -> None:
    peer = connect("http://127.0.0.1:1")

    with pytest.raises(ValueError, match="end of a line"):
        peer.encode("GET", "/", {"X-Kind": broken}, None)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("step", "content"),
    [
        (raw(OK + b"Content-Length: 5\r\n\r\n", b"hel", b"lo"), b"hello"),
        (raw(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", b"2\r\nlo\r\n0\r\n\r\n"), b"hello"),
        (raw(OK + b"\r\n", b"hello", close=True), b"hello"),
        (raw(b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"Content-Length: 5\r\n\r\nhello"), b"hello"),
        (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), b""),
    ],
    ids=["length", "chunks", "end of the connection", "after a 100", "no body"],
)
async def test_an_answer_ends_where_it_says(
    step: Step, content: bytes, connect: Callable[[str], Peer]
) -> None:
    async with scripted(step) as broker:
        assert (await get(connect(broker.url))).content == content


@pytest.mark.parametrize(
    "step",
    [
        raw(b"SSH-2.0-OpenSSH\r\n"),
        raw(OK + b"Content-Length: 5\r\n\r\nhel", close=True),
        raw(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", close=True),
        raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello"),
        break_off,
    ],
    ids=["no HTTP", "cut", "cut chunk", "another protocol", "nothing"],
)
async def test_what_is_no_whole_answer_is_none(step: Step, connect: Callable[[str], Peer]) -> None:
    left: list[str] = ["before"]
    async with scripted(step) as broker:
        with pytest.raises(NoAnswer):
            await get(connect(broker.url), left)
    assert left == ["before", "left"]


async def test_an_answer_has_a_limit(connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", 4)
    async with scripted(answer(200, raw=b"hello")) as broker:
        with pytest.raises(NoAnswer, match="too long"):
            await get(connect(broker.url))


async def test_nothing_leaves_towards_nobody(connect: Callable[[str], Peer]) -> None:
    left: list[str] = ["before"]

    with pytest.raises(NoAnswer, match="while connecting"):
        await get(connect(f"http://127.0.0.1:{free_port()}"), left)

    assert left == ["before"]


async def test_a_connection_is_used_again(connect: Callable[[str], Peer]) -> None:
    counted = Counted(answer(200, {}))
    async with scripted(counted) as broker:
        peer = connect(broker.url)
        for _ in range(3):
            await get(peer)

    assert len(counted.streams) == 1


@pytest.mark.parametrize(
    "step",
    [
        raw(OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n"),
        raw(OK + b"Content-Length: 0\r\n\r\n", close=True),
        raw(OK + b"Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ],
    ids=["told to close", "closed", "with an answer nobody asked for"],
)
async def test_a_connection_that_may_not_be_used_again_is_not(
    step: Step, connect: Callable[[str], Peer]
) -> None:
    counted = Counted(step)
    async with scripted(counted) as broker:
        peer = connect(broker.url)
        for _ in range(3):
            assert (await get(peer)).status == 200
            # Until the other side has done what it does after its answer.
            await anyio.wait_all_tasks_blocked()

    assert len(counted.streams) == 3


async def test_a_connection_that_was_idle_for_too_long_is_dialled_anew(
    connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "IDLE_SECONDS", -1.0)
    counted = Counted(answer(200, {}))
    async with scripted(counted) as broker:
        peer = connect(broker.url)
        await get(peer)
        await get(peer)

    assert len(counted.streams) == 2


async def test_the_answer_to_a_call_that_was_given_up_is_not_taken_for_that_of_the_next(
    connect: Callable[[str], Peer],
) -> None:
    async with scripted(hang, answer(200, raw=b"mine")) as broker:
        peer = connect(broker.url)
        with anyio.move_on_after(0.05):
            await get(peer)

        assert (await get(peer)).content == b"mine"


async def test_closing_ends_a_call_in_progress(connect: Callable[[str], Peer]) -> None:
    async def close(stream: SocketStream, _heard: Heard) -> None:
        peer.close()
        await stream.aclose()

    broker: ScriptedBroker
    async with scripted(close) as broker:
        peer = connect(broker.url)
        with pytest.raises(NoAnswer):
            await get(peer)
