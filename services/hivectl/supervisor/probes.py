"""How a unit is known to answer. Each probe returns once it does; whoever calls it sets the limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from services.hivectl.supervisor.listeners import HOST

Probe = Callable[[], Awaitable[None]]
_PAUSE_SECONDS = 0.05
_TRY_SECONDS = 5.0


def http_probe(port: int) -> Probe:
    """`/readyz` answers 200.

    The socket is bound before the unit runs, so the first request waits in its queue and is answered as soon
    as there is somebody to answer.
    """
    request = f"GET /readyz HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode()

    return lambda: _ask_until(port, request, b"HTTP/1.1 200")


def nats_probe(port: int) -> Probe:
    """A NATS server greets with `INFO` once its streams are recovered (source: NATS client protocol)."""
    return lambda: _ask_until(port, b"", b"INFO ")


async def _ask_until(port: int, request: bytes, beginning: bytes) -> None:
    # Polled, since what we wait for is another process.
    while not (await _ask(port, request)).startswith(beginning):  # noqa: ASYNC110
        await anyio.sleep(_PAUSE_SECONDS)


async def _ask(port: int, request: bytes) -> bytes:
    """The first bytes of the answer; empty when there was none in time."""
    try:
        with anyio.fail_after(_TRY_SECONDS):
            async with await anyio.connect_tcp(HOST, port) as stream:
                if request:
                    await stream.send(request)
                return await stream.receive()
    except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
        return b""
