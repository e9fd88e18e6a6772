"""How long messages are kept: those that were acked, for so many days; all others, and approvals, for ever.

A batch is one short transaction, and between two of them the writer is everybody else's for far longer.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.store import Store, Tx
from shared.errors import HiveError

DAY_SECONDS: Final = 24 * 3_600
PERIOD_SECONDS: Final = 3_600.0
# A sender may have to wait for one batch, so it is small; and few senders have to, for the pause is long.
BATCH_ROWS: Final = 50
BATCH_CHARS: Final = 64 * 1024
PAUSE_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)


class Retention:
    """Removes old messages every hour, from the start on. Run `run` in a task.

    Args:
        store: where they are; of several brokers on one database the one that leads removes them.
        kept_days: how long acked ones stay.
        clock: for their age.
        pause_seconds: between batches.
    """

    def __init__(
        self, store: Store, *, kept_days: int, clock: Clock, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._store = store
        self._kept_seconds = kept_days * DAY_SECONDS
        self._clock = clock
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        """Sweep for ever; a database that does not answer is tried again an hour later."""
        while True:
            await self._store.wait_leading()
            try:
                await self.sweep()
            except HiveError as exc:
                _log.warning("old_messages_not_swept", code=exc.code, reason=exc.message)
            await anyio.sleep(PERIOD_SECONDS)

    async def sweep(self) -> int:
        """Remove what is too old by now, whoever leads; returns how many messages that was."""
        removed, before = 0, self._clock() - self._kept_seconds
        while done := await self._store.write(partial(_remove, before=before)):
            removed += done
            await anyio.sleep(self._pause_seconds)
        if removed:
            _log.info("old_messages_swept", rows=removed)
        return removed


def _remove(tx: Tx, *, before: int) -> int:
    return tx.old_messages.delete(acked_before=before, limit=BATCH_ROWS, chars=BATCH_CHARS)
