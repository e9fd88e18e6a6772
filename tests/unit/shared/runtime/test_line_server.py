"""JSON lines on a unix socket: one answer a line, clear errors, and no peer that can hold up another."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from shared.errors import HiveError, InvalidInput
from shared.runtime.commands import Command, CommandTable
from shared.runtime.line_server import LineServer
from shared.runtime.lines import LineLimits
from shared.runtime.unix_sockets import open_unix_listener
from shared.wire.model import WireRequest

pytestmark = pytest.mark.anyio


class Echo(WireRequest):
    text: str
    times: int | None = None


class Nothing(WireRequest):
    pass


class Peer:
    """One connection to the server under test."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def write(self, raw: bytes) -> None:
        await self.stream.send(raw)

    async def read(self) -> Any:
        return json.loads(await self._lines.receive_until(b"\n", 2**20))

    async def ask(self, **fields: Any) -> Any:
        await self.write(json.dumps(fields).encode() + b"\n")
        return await self.read()

    async def refused(self, raw: bytes) -> Any:
        """What a raw line is refused with."""
        await self.write(raw)
        answer = await self.read()
        assert answer["ok"] is False
        return answer["error"]

    async def ask_for_ever(self, raw: bytes) -> None:
        while True:
            await self.write(raw)
            await anyio.lowlevel.checkpoint()

    async def is_closed(self) -> bool:
        try:
            await self._lines.receive(1)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True
        return False


class Served:
    """A running server and its path."""

    server: LineServer

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gate = anyio.Event()
        self.waiting = anyio.Event()

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        async with await anyio.connect_unix(str(self.path)) as stream:
            yield Peer(stream)

    async def answer(self, line: bytes) -> Mapping[str, Any]:
        return await CommandTable(
            {
                "echo": Command(Echo, self._echo),
                "wait": Command(Nothing, self._wait),
                "refuse": Command(Nothing, self._refuse),
                "break": Command(Nothing, self._break),
                "large": Command(Nothing, self._large),
            }
        ).answer(line)

    async def _echo(self, request: Echo) -> Mapping[str, Any]:
        return {"text": request.text}

    async def _wait(self, _request: Nothing) -> Mapping[str, Any]:
        self.waiting.set()
        await self.gate.wait()
        return {}

    async def _refuse(self, _request: Nothing) -> Mapping[str, Any]:
        raise InvalidInput("not today", code="no_way")

    async def _break(self, _request: Nothing) -> Mapping[str, Any]:
        raise HiveError("cannot write /secret/place", code="storage_failed")

    async def _large(self, _request: Nothing) -> Mapping[str, Any]:
        return {"text": "x" * 4_000_000}


@asynccontextmanager
async def serving(*, max_connections: int = 8, **limits: Any) -> AsyncIterator[Served]:
    with tempfile.TemporaryDirectory(prefix="hh-") as name:
        served = Served(Path(name) / "agent.sock")
        listener = open_unix_listener(served.path, setting="HIVE_AGENT_SOCKET")
        served.server = server = LineServer(
            listener, served.answer, limits=LineLimits(**limits), max_connections=max_connections
        )
        await server.start()
        try:
            with anyio.fail_after(20):
                yield served
        finally:
            await server.close()
        assert not served.path.exists()


async def test_each_line_has_its_answer_in_order() -> None:
    async with serving() as served, served.peer() as peer:
        await peer.write(b'{"cmd":"echo","text":"a"}\n{"cmd":"echo","text":"b","times":null}\n{"cmd":"ec')
        await peer.write(b'ho","text":"\xc3\xa9"}\r\n')

        assert [await peer.read() for _ in range(3)] == [{"ok": True, "text": text} for text in "abé"]


@pytest.mark.requirement("sockets.malformed")
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (b"hello\n", "malformed_line", "JSON"),
        (b"\n", "malformed_line", "JSON"),
        (b"[1]\n", "malformed_line", "object"),
        (b'{"cmd":"echo","text":NaN}\n', "malformed_line", "JSON"),
        (b"[" * 100_000 + b"\n", "malformed_line", "JSON"),
        (b'{"cmd":"echo","text":"\xff"}\n', "malformed_line", "UTF-8"),
        (b"{}\n", "unknown_command", "break, echo"),
        (b'{"cmd":7}\n', "unknown_command", "break, echo"),
        (b'{"cmd":"exec"}\n', "unknown_command", "break, echo"),
        (b'{"cmd":"echo"}\n', "invalid_input", "text: is required"),
        (b'{"cmd":"echo","text":5}\n', "invalid_input", "text"),
        (b'{"cmd":"echo","text":"SECRET","x":1}\n', "invalid_input", "x: unknown field"),
        (b'{"cmd":"refuse"}\n', "no_way", "not today"),
        (b'{"cmd":"break"}\n', "internal", "log"),
        (b"x" * 300_000 + b"\n", "line_too_long", "262144"),
    ],
)
async def test_bad_line_is_answered_clearly_and_the_connection_goes_on(
    line: bytes, code: str, says: str
) -> None:
    async with serving() as served, served.peer() as peer:
        error = await peer.refused(line)

        assert (error["code"], set(error)) == (code, {"code", "message"})
        assert says in error["message"]
        assert "secret" not in error["message"].lower()
        assert await peer.ask(cmd="echo", text="still here") == {"ok": True, "text": "still here"}


@pytest.mark.requirement("sockets.malformed")
async def test_half_a_line_does_nothing_and_is_told_so() -> None:
    async with serving() as served, served.peer() as peer:
        await peer.write(b'{"cmd":"echo","text":"whole but for its end"}')
        await peer.stream.send_eof()

        assert (await peer.read())["error"]["code"] == "incomplete_line"
        assert await peer.is_closed()


@pytest.mark.requirement("sockets.slow-peers")
async def test_line_that_does_not_end_is_given_up() -> None:
    async with serving(line_seconds=0.2) as served, served.peer() as peer:
        assert (await peer.refused(b'{"cmd":"ec'))["code"] == "timeout"
        assert await peer.is_closed()


@pytest.mark.requirement("sockets.slow-peers")
async def test_line_without_end_costs_no_memory_and_is_given_up() -> None:
    async with serving(line_seconds=0.5, line_bytes=1024) as served, served.peer() as peer:
        for _ in range(20):
            await peer.write(b"x" * 65_536)

        assert (await peer.read())["error"]["code"] == "timeout"


@pytest.mark.requirement("sockets.slow-peers")
async def test_silent_peer_is_let_go() -> None:
    async with serving(idle_seconds=0.2) as served, served.peer() as peer:
        assert (await peer.read())["error"]["code"] == "timeout"
        assert await peer.is_closed()


@pytest.mark.requirement("sockets.slow-peers")
async def test_peer_that_does_not_read_holds_up_nobody_and_is_cut() -> None:
    async with serving(write_seconds=0.5) as served, served.peer() as deaf, served.peer() as other:
        await deaf.write(b'{"cmd":"large"}\n')
        for _ in range(50):
            assert (await other.ask(cmd="echo", text="quick"))["ok"]
        with pytest.raises(anyio.BrokenResourceError):
            await deaf.ask_for_ever(b'{"cmd":"large"}\n')


@pytest.mark.requirement("sockets.slow-peers")
async def test_silent_peers_that_take_all_places_make_way() -> None:
    async with serving(max_connections=2) as served, served.peer() as first, served.peer() as second:
        assert (await first.ask(cmd="echo", text="1"))["ok"]
        assert (await second.ask(cmd="echo", text="2"))["ok"]
        async with served.peer() as third:
            assert (await third.ask(cmd="echo", text="3"))["ok"]
            assert await first.is_closed()
        assert (await second.ask(cmd="echo", text="4"))["ok"]


async def test_all_places_busy_is_an_error_that_says_so() -> None:
    async with serving(max_connections=1) as served, served.peer() as busy:
        await busy.write(b'{"cmd":"wait"}\n')
        await served.waiting.wait()
        async with served.peer() as newest:
            assert (await newest.read())["error"]["code"] == "too_many_connections"
        served.gate.set()
        assert await busy.read() == {"ok": True}


async def test_close_lets_what_is_asked_be_answered() -> None:
    async with serving() as served, served.peer() as peer, anyio.create_task_group() as tasks:
        await peer.write(b'{"cmd":"wait"}\n')
        await served.waiting.wait()

        tasks.start_soon(served.server.close)
        await anyio.wait_all_tasks_blocked()
        served.gate.set()

        assert await peer.read() == {"ok": True}
        assert await peer.is_closed()
