"""A broker by script, for what a real one does not do on demand: hang, break off, answer nonsense.

Plain sockets, so that each step decides byte by byte what a client sees.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.ports import free_port


@dataclass(frozen=True)
class Heard:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Step = Callable[[SocketStream, Heard], Awaitable[None]]


def answer(
    status: int,
    body: Any = None,
    *,
    raw: bytes | None = None,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Step:
    """Answer and keep the connection."""
    content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()

    async def step(stream: SocketStream, _heard: Heard) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        await stream.send(f"{head}{more}\r\n".encode() + content)

    return step


def refuse(status: int, code: str, message: str = "no", **details: Any) -> Step:
    """Answer an error in the broker's shape."""
    return answer(status, {"code": code, "message": message, "details": details, "request_id": "r"})


async def break_off(stream: SocketStream, _heard: Heard) -> None:
    """Close without an answer."""
    await stream.aclose()


async def hang(_stream: SocketStream, _heard: Heard) -> None:
    """Never answer."""
    await anyio.sleep_forever()


def lines(*chunks: bytes, then: Step) -> Step:
    """Begin a stream, send chunks as they are, then go on with `then`."""

    async def step(stream: SocketStream, heard: Heard) -> None:
        await stream.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
        )
        for chunk in chunks:
            await stream.send(chunk)
        await then(stream, heard)

    return step


@dataclass
class ScriptedBroker:
    """Plays `steps` in order, one a request; the last one again and again."""

    steps: list[Step]
    heard: list[Heard] = field(default_factory=list)
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Listen on `port`."""
        async with await anyio.create_tcp_listener(
            local_host="127.0.0.1", local_port=self.port, reuse_port=False
        ) as listener:
            task_status.started()
            await listener.serve(self._converse)

    async def _converse(self, stream: SocketStream) -> None:
        async with stream:
            reader = BufferedByteReceiveStream(stream)
            try:
                while True:
                    heard = await _read(reader)
                    self.heard.append(heard)
                    step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
                    await step(stream, heard)
            except (
                anyio.EndOfStream,
                anyio.IncompleteRead,
                anyio.ClosedResourceError,
                anyio.BrokenResourceError,
            ):
                return


async def _read(reader: BufferedByteReceiveStream) -> Heard:
    head = (await reader.receive_until(b"\r\n\r\n", 65_536)).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = (
        await reader.receive_exactly(int(headers.get("content-length", "0")))
        if "content-length" in headers
        else b""
    )
    return Heard(method, target, headers, body)


@asynccontextmanager
async def scripted(*steps: Step, port: int | None = None) -> AsyncIterator[ScriptedBroker]:
    """A scripted broker for the length of the block."""
    broker = ScriptedBroker(list(steps), port=port or free_port())
    async with anyio.create_task_group() as tasks:
        await tasks.start(broker.serve)
        yield broker
        tasks.cancel_scope.cancel()
