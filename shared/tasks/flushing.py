"""Has what was written survive a loss of power too: in the background, and for all who wait at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import anyio

from shared.errors import Unavailable
from shared.runtime.log import get_logger
from shared.runtime.threads import in_thread

_RETRY_SECONDS: Final = 1.0

log = get_logger()


class Flusher:
    """Run `run` in a task. For one event loop.

    Args:
        flush: what makes it durable; blocks.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._wanted = asyncio.Event()
        self._done = asyncio.Event()

    def begin(self) -> asyncio.Event:
        """Ask for it; the event is set once all that was written before is durable."""
        self._wanted.set()
        return self._done

    async def run(self) -> None:
        """Flush whenever that was asked for. A disk that refuses is asked again."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            # Whoever asks from now on may have written after this flush has begun.
            done, self._done = self._done, asyncio.Event()
            while True:
                try:
                    await in_thread(self._flush)
                    break
                except Unavailable as exc:
                    log.warning("tasks_not_flushed", error=exc.message)
                    await anyio.sleep(_RETRY_SECONDS)
            done.set()
