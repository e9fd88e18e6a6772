"""Whether a turn is due, as a level and not an edge: by what waits now, whatever was signalled before.

The broker pushes how many messages wait; todos are counted here. Only an idle agent is woken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog

from services.hyperhive_mcp.service.todos import TodoService
from services.hyperhive_mcp.service.turns import TurnStatus
from shared.errors import HiveError, LimitExceeded

MAX_WAITING: Final = 64
CONFIRM_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class WakeLevel:
    """The one wake signal of an agent. For the event loop only.

    Args:
        todos: their service; its changes are heard.
        turns: the turns' state; its changes are heard.
        count_mail: asks the broker how many messages wait.
        is_connected: whether the broker can be asked.
    """

    def __init__(
        self,
        todos: TodoService,
        turns: TurnStatus,
        *,
        count_mail: Callable[[], Awaitable[int]],
        is_connected: Callable[[], bool],
    ) -> None:
        self._todos = todos
        self._turns = turns
        self._count_mail = count_mail
        self._is_connected = is_connected
        self._mail = 0
        self._pushes = 0
        # What this agent handled itself, and up to where the level is known to show it.
        self._handled = self._confirmed = 0
        self._confirming = anyio.Lock()
        self._waiting = 0
        self._is_closed = False
        self._changed = anyio.Event()
        turns.on_change = self.notify
        todos.watch(self.notify)

    def set_mail(self, pending: int) -> None:
        """Take the broker's word for how many messages wait."""
        self._pushes += 1
        self._mail = pending
        self.notify()

    def note_handled(self) -> None:
        """Note that the agent has just taken or acked mail: what was pushed before may be old."""
        self._handled += 1
        self.notify()

    def notify(self) -> None:
        """Have all who wait look again."""
        self._changed.set()
        self._changed = anyio.Event()

    def close(self) -> None:
        """Let all who wait go, also those yet to come."""
        self._is_closed = True
        self.notify()

    def list_reasons(self) -> list[str]:
        """Why a turn is due now; nothing when none is, or one runs."""
        if self._turns.state != "Idle":
            return []
        return [
            *(["inbox"] if self._mail else []),
            *(["todos"] if self._todos.has_news else []),
        ]

    def check_room(self) -> None:
        """Refuse one more to `wait`.

        Raises:
            LimitExceeded: when too many wait.
        """
        if self._waiting >= MAX_WAITING:
            raise LimitExceeded(
                f"{MAX_WAITING} requests wait already, which is the limit; try again when one has its answer",
                code="too_many_waiting",
                details={"limit": MAX_WAITING, "retry_after_seconds": 1},
            )

    async def wait(self, seconds: float) -> list[str]:
        """Why a turn is due, as soon as one is; nothing after so many seconds. `check_room` first."""
        self._waiting += 1
        end = anyio.current_time() + seconds
        try:
            while not self._is_closed:
                changed = self._changed
                await self._confirm()
                if reasons := self.list_reasons():
                    return reasons
                with anyio.move_on_at(end) as scope:
                    await changed.wait()
                if scope.cancelled_caught:
                    break
            return []
        finally:
            self._waiting -= 1

    async def _confirm(self) -> None:
        """After the agent has handled mail itself, ask instead of trusting a push that may be older."""
        if self._confirmed == self._handled:
            return
        async with self._confirming:
            while self._confirmed != self._handled and self._is_connected():
                handled, pushes = self._handled, self._pushes
                try:
                    with anyio.fail_after(CONFIRM_SECONDS):
                        pending = await self._count_mail()
                except (HiveError, TimeoutError) as exc:
                    log.info("mail_not_counted", reason=str(exc))
                    return
                # A push that came meanwhile may be older or newer than this answer: then ask again.
                if self._pushes == pushes:
                    self._mail, self._confirmed = pending, handled
