"""Sends of which the agent was told that nobody knows whether they were stored: the operator is to see them.

They are kept until the broker has heard of them, which is away when they come about.
"""

from __future__ import annotations

import time
from functools import partial

import anyio
import structlog

from services.hyperhive_mcp.store import StateStore
from shared.client import BrokerClient
from shared.errors import HiveError
from shared.wire.control import MAX_UNKNOWN_SENDS, Report, UnknownSend
from shared.wire.messages import SendRequest

MAX_WAITING = 100

log = structlog.get_logger(__name__)


class UnknownSends:
    """What is to be reported; nothing here fails. On disk too, as far as that can be written."""

    def __init__(self, broker: BrokerClient, store: StateStore) -> None:
        self._broker = broker
        self._store = store
        self._waiting = store.find_unknown_sends()
        self._lock = anyio.Lock()

    async def note(self, request: SendRequest, *, key: str) -> None:
        """Keep one; of very many the newest."""
        size = len(request.body.encode())
        log.warning("send_outcome_unknown", call=key, recipient=request.to, size=size)
        async with self._lock:
            new = UnknownSend(key=key, to=request.to, size=size, at=int(time.time()))
            self._waiting = [*self._waiting, new][-MAX_WAITING:]
            await self._save()

    async def push(self) -> None:
        """Report what waits, if anything does; what cannot be reported now goes on waiting."""
        if not self._waiting or self._lock.locked():
            return
        async with self._lock:
            try:
                while batch := self._waiting[:MAX_UNKNOWN_SENDS]:
                    await self._broker.report(
                        Report(unit=self._broker.unit, boot=self._broker.boot, unknown_sends=batch)
                    )
                    self._waiting = self._waiting[len(batch) :]
            except HiveError as exc:
                log.warning("unknown_sends_not_reported", waiting=len(self._waiting), reason=exc.message)
            await self._save()

    async def _save(self) -> None:
        try:
            await anyio.to_thread.run_sync(partial(self._store.save_unknown_sends, self._waiting))
        except HiveError as exc:
            log.warning("unknown_sends_not_saved", waiting=len(self._waiting), reason=exc.message)
