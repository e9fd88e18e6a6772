"""What is thrown away in time: given answers after a day, refusals and events after a week, dead tokens.

Messages are not: only their own retention may remove those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.idempotency import KEPT_SECONDS
from services.broker.service.refusals import KEPT_SECONDS as REFUSALS_KEPT_SECONDS
from services.broker.store import Store, Tx
from shared.errors import HiveError

PERIOD_SECONDS: Final = 3_600.0
# Small enough that no sender waits noticeably behind it.
BATCH_ROWS: Final = 500
EVENTS_KEPT_SECONDS: Final = 7 * 24 * 3_600

_log = structlog.get_logger(__name__)


class Housekeeping:
    """Sweeps every hour, from the start on."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Sweep for ever; a database that does not answer is tried again an hour later."""
        while True:
            try:
                await self.sweep()
            except HiveError as exc:
                _log.warning("sweep_failed", code=exc.code, reason=exc.message)
            await anyio.sleep(PERIOD_SECONDS)

    async def sweep(self) -> int:
        """Remove what is due; returns how many rows that was."""
        now = self._clock()
        await self._store.write(lambda tx: tx.tokens.delete_expired(now=now))
        removed = await self._repeat(
            lambda tx: tx.idempotency.delete_before(now - KEPT_SECONDS, limit=BATCH_ROWS)
        )
        removed += await self._repeat(
            lambda tx: tx.jobs.delete_events_before(now - EVENTS_KEPT_SECONDS, limit=BATCH_ROWS)
        )
        removed += await self._repeat(
            lambda tx: tx.refusals.delete_before(now - REFUSALS_KEPT_SECONDS, limit=BATCH_ROWS)
        )
        if removed:
            _log.info("rows_swept", rows=removed)
        return removed

    async def _repeat(self, delete: Callable[[Tx], int]) -> int:
        total = 0
        while (removed := await self._store.write(delete)) > 0:
            total += removed
        return total
