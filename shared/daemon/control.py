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
from shared.wire.control import GrantsPush, Hello, InboxPush, KillTaskPush, Report
from shared.wire.tasks import KillAnswer, KillOutcome

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# However long a broker asks to wait: it may be restarted, or changed, meanwhile.
MAX_RETRY_AFTER_SECONDS = 60

log = structlog.get_logger(__name__)


async def _know_no_task(_task_id: str) -> KillOutcome:
    return "unknown"


class ControlLink:
    """Keeps the stream open.

    Args:
        broker: where to dial.
        hello: says who we are and which groups we ask for.
        on_grants: awaited with every push, before it is confirmed.
        on_inbox: called with how many messages wait, whenever that has changed.
        on_kill_task: begins to end a task that the operator wants ended, and returns soon.
        describe: what to report after each connect, besides the confirmation.
        on_connect: awaited after each connect, for what waited while the broker was down.
        on_ping: awaited with every ping, for what waits although the broker is there.
        sleep: pauses between attempts.
    """

    def __init__(
        self,
        broker: BrokerClient,
        *,
        hello: Hello,
        on_grants: Callable[[Grants], Awaitable[None]],
        on_inbox: Callable[[int], None] = lambda _: None,
        on_kill_task: Callable[[str], Awaitable[KillOutcome]] = _know_no_task,
        describe: Callable[[], Report],
        on_connect: Callable[[], Awaitable[object]],
        on_ping: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._broker = broker
        self._hello = hello
        self._on_grants = on_grants
        self._on_inbox = on_inbox
        self._on_kill_task = on_kill_task
        self._describe = describe
        self._on_connect = on_connect
        self._on_ping = on_ping
        self._sleep = sleep
        self.connected = False

    async def run(self) -> None:
        """Dial, follow, dial again; ends only when cancelled."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        told_down = False
        while True:
            asked_to_wait = 0.0
            try:
                async with aclosing(self._broker.control(self._hello)) as events:
                    async for event in events:
                        if isinstance(event, GrantsPush):
                            await self._take(event)
                        elif isinstance(event, InboxPush):
                            self._on_inbox(event.pending)
                        elif isinstance(event, KillTaskPush):
                            await self._kill(event.id)
                        else:
                            await self._on_ping()
                        if not self.connected:
                            self.connected, told_down = True, False
                            log.info("broker_connected")
                            await self._broker.report(self._describe())
                            await self._on_connect()
                            # Not before: what comes to nothing each time is dialled ever more slowly.
                            backoff.reset()
            except HiveError as exc:
                asked_to_wait = _find_retry_after(exc)
                if not told_down:
                    log.warning("broker_not_reachable", code=exc.code, reason=exc.message)
                    told_down = True
            finally:
                self.connected = False
            await self._sleep(asked_to_wait + backoff.next())

    async def _kill(self, task_id: str) -> None:
        answer = KillAnswer(id=task_id, outcome=await self._on_kill_task(task_id))
        log.info("kill_taken", task=task_id, outcome=answer.outcome)
        await self._broker.report(Report(unit=self._hello.unit, boot=self._hello.boot, kills=[answer]))

    async def _take(self, event: GrantsPush) -> None:
        await self._on_grants(event.grants)
        await self._broker.report(
            Report(unit=self._hello.unit, boot=self._hello.boot, grants_version=event.grants.version)
        )


def _find_retry_after(error: HiveError) -> float:
    """How long the broker asked to wait before the next attempt."""
    seconds = error.details.get("retry_after_seconds", 0)
    return (
        min(max(0.0, float(seconds)), MAX_RETRY_AFTER_SECONDS) if isinstance(seconds, (int, float)) else 0.0
    )
