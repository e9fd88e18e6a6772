"""Empties the spool into the broker: one sender, in order, at least once, however long the broker is away."""

from __future__ import annotations

from typing import Protocol

import anyio
import structlog

from services.hivectl.spool import EventSpool, SpooledEvent
from services.hivectl.supervisor.trouble import Trouble
from shared.errors import HiveError, InvalidInput
from shared.runtime.backoff import Backoff
from shared.wire.lifecycle import DriverEvents

BATCH = 100
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class EventReceiver(Protocol):
    """The broker, as far as it matters here."""

    async def report(self, events: DriverEvents) -> None:
        """Take them all, or raise and take none."""


class EventSender:
    """Run `run` in a task of its own; `wait_empty` returns whenever the broker knows all."""

    def __init__(self, spool: EventSpool, link: EventReceiver, *, driver_id: str) -> None:
        self._spool = spool
        self._link = link
        self._driver_id = driver_id
        self._wake = anyio.Event()
        self._empty = anyio.Event()
        spool.on_append = self._appended

    async def run(self) -> None:
        """Send until cancelled."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        trouble = Trouble(_log, failed="driver_events_not_sent", recovered="driver_events_sent_again")
        while True:
            self._wake = anyio.Event()
            try:
                batch = self._spool.list_oldest(BATCH)
                if not batch:
                    self._empty.set()
                    await self._wake.wait()
                    continue
                await self._send(batch)
                backoff.reset()
                trouble.clear()
            except HiveError as exc:
                trouble.note(exc.code, reason=exc.message)
                await anyio.sleep(backoff.next())

    async def wait_empty(self) -> None:
        """Wait until nothing is left to send."""
        await self._empty.wait()

    async def _send(self, batch: list[SpooledEvent]) -> None:
        try:
            await self._link.report(self._wrap(batch))
        except InvalidInput as exc:
            if len(batch) > 1:
                # Find the one that is refused: all others must still arrive, in order.
                for one in batch:
                    await self._send([one])
                return
            # A broker that cannot take it now never will; kept, it would hold up all that follows.
            _log.error("driver_event_refused", code=exc.code, reason=exc.message, kind=batch[0].event.kind)
        self._spool.remove(batch)

    def _wrap(self, batch: list[SpooledEvent]) -> DriverEvents:
        return DriverEvents(driver_id=self._driver_id, events=[one.event for one in batch])

    def _appended(self) -> None:
        if self._empty.is_set():
            self._empty = anyio.Event()
        self._wake.set()
