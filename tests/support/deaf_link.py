"""A TCP relay that can go deaf: what the client sends arrives, what the server answers does not come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class DeafLink:
    """Relays to a port of loopback."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []
        self.deaf = False
        self.swallowed = asyncio.Event()
        self.port = 0

    def cut(self) -> None:
        """Drop all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection, both ways."""
        there = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, there[1]]
        await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer, answers=True))

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65_536):
                if answers and self.deaf:
                    self.swallowed.set()
                    continue
                writer.write(chunk)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def deaf_link(target: int) -> AsyncIterator[DeafLink]:
    """Relay from a free port to `target` for the length of the block."""
    link = DeafLink(target)
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        link.cut()
        server.close()
        await server.wait_closed()
