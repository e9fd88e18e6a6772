"""Tells the broker what a daemon has, for the operator's eyes: at connect, and soon after each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog

from shared.client import BrokerClient
from shared.errors import HiveError
from shared.wire.control import Report
from shared.wire.tasks import TaskMirror

# However fast things come and go, the broker hears of them so often at most.
PERIOD_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


class PacedReports:
    """Run `run` in a task. What cannot be told now is told at the next connect, when `note` is called.

    Args:
        broker: who is told.
        describe: makes the report of what is now.
        is_connected: whether the broker can be told.
        period_seconds: from one report to the next.
    """

    def __init__(
        self,
        broker: BrokerClient,
        describe: Callable[[], Awaitable[Report]],
        *,
        is_connected: Callable[[], bool],
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._broker = broker
        self._describe = describe
        self._is_connected = is_connected
        self._period_seconds = period_seconds
        self._news = anyio.Event()

    def note(self) -> None:
        """Say that something has changed, or that the broker is there again."""
        self._news.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if not self._is_connected():
                continue
            try:
                await self._broker.report(await self._describe())
            except HiveError as exc:
                log.info("not_reported", code=exc.code, reason=exc.message)
            await anyio.sleep(self._period_seconds)


class TaskReports(PacedReports):
    """The tasks of a surface.

    Args:
        broker: who is told.
        take_snapshot: what there is now; cut to what a report holds, with one-line titles.
        is_connected: whether the broker can be told.
        period_seconds: from one report to the next.
    """

    def __init__(
        self,
        broker: BrokerClient,
        take_snapshot: Callable[[], Awaitable[TaskMirror]],
        *,
        is_connected: Callable[[], bool],
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        async def describe() -> Report:
            return Report(unit=broker.unit, boot=broker.boot, tasks=await take_snapshot())

        super().__init__(broker, describe, is_connected=is_connected, period_seconds=period_seconds)
