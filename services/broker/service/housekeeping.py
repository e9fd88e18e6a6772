"""What is thrown away: given answers after a day or when they are many, refusals and events after a week.

Messages are not: see `retention`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.idempotency import KEPT_ANSWERS, KEPT_SECONDS, AnswerMeter
from services.broker.service.refusals import KEPT_SECONDS as REFUSALS_KEPT_SECONDS
from services.broker.store import Store, Tx
from shared.errors import HiveError

PERIOD_SECONDS: Final = 3_600.0
# Small enough that no sender waits noticeably behind it.
BATCH_ROWS: Final = 500
EVENTS_KEPT_SECONDS: Final = 7 * 24 * 3_600
# Long enough for an agent's surface to have removed the file.
SPILLS_KEPT_SECONDS: Final = 7 * 24 * 3_600

_log = structlog.get_logger(__name__)


@contextmanager
def _tolerated() -> Iterator[None]:
    try:
        yield
    except HiveError as exc:
        _log.warning("sweep_failed", code=exc.code, reason=exc.message)


def _trim(tx: Tx, *, scope: str, since: int, keep: int) -> int:
    return tx.idempotency.trim(scope, since=since, keep=keep, limit=BATCH_ROWS)


class Housekeeping:
    """Sweeps every hour, from the start on, and after a caller at once who has very many answers kept.

    Args:
        store: what is swept.
        clock: for ages.
        answers: says who.
        kept_answers: how many of one caller stay.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        answers: AnswerMeter | None = None,
        kept_answers: int = KEPT_ANSWERS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._answers = answers or AnswerMeter()
        self._kept_answers = kept_answers

    async def run(self) -> None:
        """Sweep for ever; a database that does not answer is tried again an hour later."""
        while True:
            with _tolerated():
                await self.sweep()
            with anyio.move_on_after(PERIOD_SECONDS):
                while True:
                    due = await self._answers.wait_due()
                    with _tolerated():
                        await self._sweep_answers(due)

    async def sweep(self) -> int:
        """Remove what is due; returns how many rows that was."""
        now = self._clock()
        await self._store.write(lambda tx: tx.tokens.delete_expired(now=now))
        removed = await self._sweep_answers(await self._store.read(lambda tx: tx.idempotency.list_scopes()))
        removed += await self._repeat(
            lambda tx: tx.jobs.delete_events_before(now - EVENTS_KEPT_SECONDS, limit=BATCH_ROWS)
        )
        removed += await self._repeat(
            lambda tx: tx.refusals.delete_before(now - REFUSALS_KEPT_SECONDS, limit=BATCH_ROWS)
        )
        removed += await self._repeat(
            lambda tx: tx.reminders.delete_acked_spills(before=now - SPILLS_KEPT_SECONDS, limit=BATCH_ROWS)
        )
        if removed:
            _log.info("rows_swept", rows=removed)
        return removed

    async def _sweep_answers(self, scopes: Iterable[str]) -> int:
        since, removed = self._clock() - KEPT_SECONDS, 0
        for scope in scopes:
            removed += await self._repeat(partial(_trim, scope=scope, since=since, keep=self._kept_answers))
        return removed

    async def _repeat(self, delete: Callable[[Tx], int]) -> int:
        total = 0
        while (removed := await self._store.write(delete)) > 0:
            total += removed
        return total
