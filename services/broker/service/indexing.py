"""Brings new messages into the index of words: after the fact, so that whoever sends does not wait for it.

A batch is one short transaction, and between two of them the writer is everybody else's for far longer.
"""

from __future__ import annotations

import time
from typing import Final

import anyio
import structlog

from services.broker.store import Store, Tx
from services.broker.store.search import Progress
from shared.errors import HiveError, Unavailable

PERIOD_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.05
# Some 4 ms of the writer's time, whatever the size of the bodies.
BATCH_ROWS: Final = 50
BATCH_CHARS: Final = 64 * 1024
# How long who searches waits for the index at most.
PATIENCE_SECONDS: Final = 8.0
BEHIND = "index_behind"

_log = structlog.get_logger(__name__)


class Indexing:
    """Run `run` in a task.

    Args:
        store: where messages are; of several brokers on one database the one that leads does it unasked.
        patience_seconds: how long `catch_up` may take.
    """

    def __init__(self, store: Store, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._store = store
        self._patience_seconds = patience_seconds

    async def run(self) -> None:
        """Follow what is stored for ever; a database that does not answer is tried again."""
        told: str | None = None
        while True:
            await self._store.wait_leading()
            try:
                await self._follow()
                told = None
            except HiveError as exc:
                if exc.message != told:
                    _log.warning("messages_not_indexed", code=exc.code, reason=exc.message)
                told = exc.message
            await anyio.sleep(PERIOD_SECONDS)

    async def catch_up(self) -> None:
        """Have everything in the index that is stored by now.

        Raises:
            Unavailable: when that takes too long; what was done stays done.
        """
        until = time.monotonic() + self._patience_seconds
        wanted = (await self._get_progress()).newest
        while (mark := (await self._get_progress()).mark) < wanted:
            if time.monotonic() >= until:
                raise Unavailable(
                    f"the index of messages is not complete yet: it is at #{mark} of #{wanted}. Try again "
                    "in a moment",
                    code=BEHIND,
                    details={"indexed": mark, "newest": wanted},
                )
            await self._store.write(_advance)

    async def _follow(self) -> None:
        while True:
            progress = await self._get_progress()
            if progress.mark >= progress.newest:
                return
            await self._store.write(_advance)
            await anyio.sleep(PAUSE_SECONDS)

    async def _get_progress(self) -> Progress:
        return await self._store.read(lambda tx: tx.search.get_progress(), snapshot=False)


def _advance(tx: Tx) -> int:
    return tx.search.advance(rows=BATCH_ROWS, chars=BATCH_CHARS)
