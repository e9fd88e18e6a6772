"""An answer's head and body leave in one piece: uvicorn writes them one by one, each a system call."""

from __future__ import annotations

import asyncio


class JoinedTransport:
    """What an answer is written to. Keeps what is written first until more comes, or the loop's next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._kept is None:
            self._kept = data
            self._loop.call_soon(self.flush)
            return
        kept, self._kept = self._kept, None
        if not self._transport.is_closing():
            self._transport.writelines((kept, data))

    def flush(self) -> None:
        """Write what is kept; call it before anything is written past this object."""
        if self._kept is None:
            return
        kept, self._kept = self._kept, None
        # The caller may have left meanwhile.
        if not self._transport.is_closing():
            self._transport.write(kept)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
