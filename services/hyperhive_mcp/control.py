"""The daemon's control link: one stream from the broker, redialled for ever; reports go up beside it.

Knows the protocol, not what grants mean: callbacks take what comes down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio
import structlog

from shared.client import BrokerClient
from shared.errors import HiveError
from shared.runtime.backoff import Backoff
from shared.wire.agents import Grants
from shared.wire.control import GrantsPush, Hello, Report

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger(__name__)


class ControlLink:
    """Keeps the stream open.

    Args:
        broker: where to dial.
        hello: says who we are and which groups we ask for.
        on_grants: awaited with every push, before it is confirmed.
        describe: what to report after each connect, besides the confirmation.
        on_connect: awaited after each connect, for what waited while the broker was down.
    """

    def __init__(
        self,
        broker: BrokerClient,
        *,
        hello: Hello,
        on_grants: Callable[[Grants], Awaitable[None]],
        describe: Callable[[], Report],
        on_connect: Callable[[], Awaitable[object]],
    ) -> None:
        self._broker = broker
        self._hello = hello
        self._on_grants = on_grants
        self._describe = describe
        self._on_connect = on_connect
        self.connected = False

    async def run(self) -> None:
        """Dial, follow, dial again; ends only when cancelled."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        told_down = False
        while True:
            try:
                async with aclosing(self._broker.control(self._hello)) as events:
                    async for event in events:
                        if isinstance(event, GrantsPush):
                            await self._take(event)
                        if not self.connected:
                            self.connected, told_down = True, False
                            backoff.reset()
                            log.info("broker_connected")
                            await self._broker.report(self._describe())
                            await self._on_connect()
            except HiveError as exc:
                if not told_down:
                    log.warning("broker_not_reachable", code=exc.code, reason=exc.message)
                    told_down = True
            finally:
                self.connected = False
            await anyio.sleep(backoff.next())

    async def _take(self, event: GrantsPush) -> None:
        await self._on_grants(event.grants)
        await self._broker.report(
            Report(unit=self._hello.unit, boot=self._hello.boot, grants_version=event.grants.version)
        )
