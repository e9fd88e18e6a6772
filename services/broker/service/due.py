"""What falls due: found, claimed and delivered, each once, whatever dies in between.

A batch is one short transaction that other writers stand between. Where several brokers share a database,
the one that leads does it; should two ever think they lead, a row is still claimed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.store import Store, Topic, Tx
from shared.errors import HiveError

BATCH_ROWS: Final = 50
# What a full inbox could not take is tried again after that.
HOLD_SECONDS: Final = 15
# The clock may be set at any time, so it is looked at often; the database only when something is due.
TICK_SECONDS: Final = 0.25
RECHECK_SECONDS: Final = 60
RETRY_SECONDS: Final = 1.0
CRASH_SECONDS: Final = 10.0
# Between batches, so that a flood of what is due does not slow down those who send.
BREATH_SECONDS: Final = 0.005

AtStep = Callable[[str], None]
_log = structlog.get_logger(__name__)


def no_step(_step: str) -> None:
    """Nobody watches."""


class Plan(Protocol):
    """One kind of thing that falls due."""

    def fire(self, tx: Tx, *, now: int, limit: int) -> int:
        """Deal with up to `limit` rows that are due; says how many. Those it leaves are due no more."""

    def find_next(self, tx: Tx) -> int | None:
        """When the next row is due."""

    def release_held(self, tx: Tx, *, after: int) -> int:
        """Have rows tried now that are held until later than `after`."""


class DueWorker:
    """Run `run` in a task; call `wake` when something may be due earlier than was known.

    Args:
        store: where plans are.
        plans: what to look for, in this order.
        clock: the time of day.
        at_step: called between the steps of a delivery; tests end the process there.
    """

    def __init__(
        self, store: Store, plans: Sequence[Plan], *, clock: Clock, at_step: AtStep = no_step
    ) -> None:
        self._store = store
        self._plans = plans
        self._clock = clock
        self._at_step = at_step
        self._news = anyio.Event()
        store.on_news(Topic.DUE, lambda _subject: self.wake())

    def wake(self) -> None:
        """Look at the database again."""
        self._news.set()

    async def run(self) -> None:
        """Deliver what falls due, for ever."""
        is_set_back = True
        while True:
            await self._store.wait_leading()
            self._news = anyio.Event()
            try:
                if is_set_back:
                    await self._store.write(partial(self._release_held, now=self._clock()))
                await self.fire_all()
                next_at = await self._store.read(self._find_next)
            except HiveError as exc:
                _log.warning("due_not_delivered", code=exc.code, reason=exc.message)
                await anyio.sleep(RETRY_SECONDS)
                continue
            except Exception:  # noqa: BLE001 - a bug in one kind of plan must not end the broker
                _log.exception("due_crashed")
                await anyio.sleep(CRASH_SECONDS)
                continue
            is_set_back = await self._wait(next_at)

    async def fire_all(self) -> None:
        """Deliver all that is due now, whoever leads."""
        for plan in self._plans:
            while True:
                now = self._clock()
                if not await self._store.read(partial(_is_due, plan=plan, now=now)):
                    break
                self._at_step("due")
                done = await self._store.write(partial(plan.fire, now=now, limit=BATCH_ROWS))
                self._at_step("committed")
                if not done:
                    break
                await anyio.sleep(BREATH_SECONDS)

    async def _wait(self, next_at: int | None) -> bool:
        """Until something is due or has changed; True when the clock was set back meanwhile."""
        seen = now = self._clock()
        with anyio.move_on_after(RECHECK_SECONDS):
            while seen <= now and (next_at is None or now < next_at):
                with anyio.move_on_after(TICK_SECONDS):
                    await self._news.wait()
                if self._news.is_set() or not self._store.leads:
                    break
                seen, now = now, self._clock()
        return now < seen

    def _find_next(self, tx: Tx) -> int | None:
        found = [at for plan in self._plans if (at := plan.find_next(tx)) is not None]
        return min(found, default=None)

    def _release_held(self, tx: Tx, *, now: int) -> None:
        for plan in self._plans:
            plan.release_held(tx, after=now + HOLD_SECONDS)


def _is_due(tx: Tx, *, plan: Plan, now: int) -> bool:
    next_at = plan.find_next(tx)
    return next_at is not None and next_at <= now


def announce(tx: Tx, wake: Callable[[], None]) -> None:
    """Have whoever delivers look again once this is committed, here or at another broker."""
    tx.on_commit(wake)
    tx.announce(Topic.DUE)
