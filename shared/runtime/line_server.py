"""A server of JSON lines on a unix socket: one object a line, one answer each, in order.

`{"ok":true,…}` or `{"ok":false,"error":{"code","message"}}`. No peer can hold up another: each connection has
its limits, and when all places are taken, the one that has been silent longest loses its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from shared.errors import HiveError
from shared.runtime.ids import new_ulid
from shared.runtime.lines import LineFault, LineLimits, LineReader
from shared.runtime.log import get_logger, request_id
from shared.runtime.unix_sockets import UnixListener

MAX_CONNECTIONS: Final = 64
CLOSE_SECONDS: Final = 2.0
REFUSED_SECONDS: Final = 1.0
MAX_REFUSED_BYTES: Final = 65_536
INTERNAL_MESSAGE: Final = "something went wrong here; the daemon's log says what"

Answer = Callable[[bytes], Awaitable[Mapping[str, Any]]]

log = get_logger()


class LineServer:
    """Serves `listener` from `start` to `close`. For one event loop.

    Args:
        listener: where; closed by `close`.
        answer: what a line is answered with; its `HiveError` is the answer too.
        limits: what one connection may cost.
        max_connections: how many there may be.
    """

    def __init__(
        self,
        listener: UnixListener,
        answer: Answer,
        *,
        limits: LineLimits | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._limits = limits or LineLimits()
        self._max_connections = max_connections
        self._open: dict[_Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Take connections."""
        self._server = await asyncio.start_unix_server(self._take, sock=self._listener.socket)

    async def close(self) -> None:
        """Take no more, let what is being answered be answered, then cut."""
        if self._server is not None:
            self._server.close()
        self._listener.close()
        busy = [task for connection, task in self._open.items() if connection.is_busy]
        for connection in list(self._open):
            connection.end()
        if busy:
            await asyncio.wait(busy, timeout=CLOSE_SECONDS)
        left = list(self._open.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._limits, self._answer)
        task = asyncio.ensure_future(self._serve(connection, writer))
        self._open[connection] = task
        task.add_done_callback(lambda _: self._open.pop(connection, None))

    async def _serve(self, connection: _Connection, writer: asyncio.StreamWriter) -> None:
        if not self._listener.peers.admit(writer.get_extra_info("socket")):
            log.warning("peer_refused", path=str(self._listener.path))
            await connection.refuse("forbidden", "this socket is not for your user")
        elif not self._make_room():
            await connection.refuse(
                "too_many_connections",
                f"{self._max_connections} connections are being answered, which is the limit; try again",
            )
        else:
            await connection.serve()

    def _make_room(self) -> bool:
        """Whether there is a place; the longest silent connection gives up its own."""
        if len(self._open) <= self._max_connections:
            return True
        silent = [other for other in self._open if not other.is_busy and other.silent_since is not None]
        if not silent:
            return False
        longest = min(silent, key=lambda other: other.silent_since or 0.0)
        self._open.pop(longest).cancel()
        return True


class _Connection:
    """One peer: reads a line, has it answered, writes the answer, again and again."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: LineLimits,
        answer: Answer,
    ) -> None:
        self._reader = reader
        self._lines = LineReader(reader, limits)
        self._writer = writer
        # So that a write waits until the peer has taken all of it.
        writer.transport.set_write_buffer_limits(high=0)
        self._limits = limits
        self._answer = answer
        self._is_ending = False
        self.is_busy = False
        self.silent_since: float | None = None

    def end(self) -> None:
        """Answer what is being asked, and nothing more."""
        self._is_ending = True

    async def refuse(self, code: str, message: str) -> None:
        """Say why, and close; not before the peer has had time to ask, which would fail otherwise."""
        try:
            if await self._write(_failure(code, message)):
                async with asyncio.timeout(REFUSED_SECONDS):
                    while await self._reader.read(MAX_REFUSED_BYTES):
                        pass
        except (ConnectionError, TimeoutError):
            pass
        finally:
            self._writer.close()

    async def serve(self) -> None:
        """Until either side ends it."""
        loop = asyncio.get_running_loop()
        try:
            while not self._is_ending:
                self.is_busy, self.silent_since = False, loop.time()
                try:
                    line = await self._lines.next()
                except LineFault as fault:
                    if not await self._write(_failure(fault.code, fault.message)) or fault.final:
                        return
                    continue
                if line is None:
                    return
                self.is_busy = True
                if not await self._write(await self._find_answer(line)):
                    return
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            self._writer.close()

    async def _find_answer(self, line: bytes) -> Mapping[str, Any]:
        reset = request_id.set(new_ulid())
        try:
            return {"ok": True, **await self._answer(line)}
        except HiveError as exc:
            if exc.http_status != 500:
                return _failure(exc.code, exc.message)
            log.warning("line_failed", code=exc.code, reason=exc.message)
        except Exception:  # the last line of defence: a bug must not end the connection, nor show its text
            log.exception("line_crashed")
        finally:
            request_id.reset(reset)
        return _failure("internal", INTERNAL_MESSAGE)

    async def _write(self, answer: Mapping[str, Any]) -> bool:
        """Write one line; False when the peer does not read it, or is gone."""
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                self._writer.write(text.encode(errors="replace") + b"\n")
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()
            return False
        except ConnectionError:
            return False
        return True


def _failure(code: str, message: str) -> Mapping[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message}}
