"""Lines of bytes from a peer who may send half of one, none, or one without end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

MAX_LINE_BYTES = 256 * 1024
# So long a connection may ask nothing, and so long a line may take from its first byte to its last.
IDLE_SECONDS = 300.0
LINE_SECONDS = 10.0
# So long an answer may take until the peer has read enough of it.
WRITE_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LineLimits:
    """What one connection may cost."""

    line_bytes: int = MAX_LINE_BYTES
    idle_seconds: float = IDLE_SECONDS
    line_seconds: float = LINE_SECONDS
    write_seconds: float = WRITE_SECONDS


class LineFault(Exception):
    """What came is no line; after a `final` one nothing more can be read."""

    def __init__(self, code: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.final = final


class LineReader:
    """Reads lines off one connection, within its limits."""

    def __init__(self, reader: asyncio.StreamReader, limits: LineLimits) -> None:
        self._reader = reader
        self._limits = limits
        self._held = bytearray()
        self._searched = 0
        # Of a line that is too long nothing is kept, and its end is waited for.
        self._is_dropping = False

    async def next(self) -> bytes | None:
        """The next line without its end; None when the peer has closed the connection.

        Raises:
            LineFault: for a line that is too long, one that does not end, and for silence.
        """
        end_at: float | None = None
        loop = asyncio.get_running_loop()
        while (end := self._held.find(b"\n", self._searched)) < 0:
            self._searched = len(self._held)
            if self._searched > self._limits.line_bytes:
                self._is_dropping = True
            if self._is_dropping:
                self._held.clear()
                self._searched = 0
            if end_at is None and (self._held or self._is_dropping):
                end_at = loop.time() + self._limits.line_seconds
            if not await self._fill(end_at):
                return None
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._searched = 0
        was_dropping, self._is_dropping = self._is_dropping, False
        if was_dropping or len(line) > self._limits.line_bytes:
            raise LineFault(
                "line_too_long",
                f"a line may have {self._limits.line_bytes} bytes at most; this one was dropped, nothing was "
                "done",
                final=False,
            )
        return line

    async def _fill(self, end_at: float | None) -> bool:
        """Take in more; False when the peer has ended between two lines."""
        try:
            async with (
                asyncio.timeout(self._limits.idle_seconds) if end_at is None else asyncio.timeout_at(end_at)
            ):
                chunk = await self._reader.read(_CHUNK_BYTES)
        except TimeoutError:
            raise self._explain_silence(begun=end_at is not None) from None
        if chunk:
            self._held += chunk
            return True
        if self._held or self._is_dropping:
            raise LineFault(
                "incomplete_line",
                "the last line has no end: send one JSON object, then a line break; nothing was done",
                final=True,
            )
        return False

    def _explain_silence(self, *, begun: bool) -> LineFault:
        seconds = self._limits.line_seconds if begun else self._limits.idle_seconds
        what = "the line did not end" if begun else "nothing was asked"
        return LineFault("timeout", f"{what} within {seconds:g} s; nothing was done", final=True)
