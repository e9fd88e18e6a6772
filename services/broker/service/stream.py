"""One daemon's control stream: in memory only; what counts is in the database and pushed anew.

It holds one slot for each kind of event, so a slow reader costs no memory and gets the latest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from services.broker.service.rights import narrow
from shared.permissions import ToolGroup
from shared.wire.agents import Grants
from shared.wire.control import ControlEvent, GrantsPush, Hello, InboxPush, KillTaskPush, Ping, Unit
from shared.wire.tasks import MAX_KILLS

PING_SECONDS = 10.0
# How often a daemon that knows of waiting messages hears how many: each time costs it more than a message.
COUNT_SECONDS = 0.05


class ControlStream:
    """What goes down a stream, and which grants its daemon has confirmed."""

    def __init__(
        self,
        agent_id: int,
        hello: Hello,
        *,
        ping_seconds: float = PING_SECONDS,
        count_seconds: float = COUNT_SECONDS,
    ) -> None:
        self.agent_id = agent_id
        self.unit: Unit = hello.unit
        self.boot = hello.boot
        self.confirmed = -1
        self.is_closed = False
        self._requested: frozenset[ToolGroup] | None = (
            None if hello.tool_groups is None else frozenset(hello.tool_groups)
        )
        self._ping_seconds = ping_seconds
        self._count_seconds = count_seconds
        self._latest = -1
        self._waiting: Grants | None = None
        self._pending: int | None = None
        self._pending_told: int | None = None
        self._told_at = 0.0
        self._kills: dict[str, None] = {}
        self.inbox_pushes = 0
        self._news = anyio.Event()

    def push(self, grants: Grants) -> None:
        """Put grants in the slot unless later ones were there already."""
        if grants.version > self._latest:
            self._latest = grants.version
            self._waiting = narrow(grants, self._requested)
            self._news.set()

    def push_inbox(self, pending: int) -> None:
        """Have the daemon know how many messages wait, unless it does; the latest number alone counts."""
        self.inbox_pushes += 1
        is_due = self._pending is not None
        self._pending = None if pending == self._pending_told else pending
        if self._pending is not None and not (is_due and self._may_wait):
            self._news.set()

    def push_kill(self, task_id: str) -> bool:
        """Have the daemon end a task; False when too many wait, as at a daemon that does not read."""
        if len(self._kills) >= MAX_KILLS:
            return False
        self._kills[task_id] = None
        self._news.set()
        return True

    def close(self) -> None:
        self.is_closed = True
        self._news.set()

    async def events(self) -> AsyncIterator[ControlEvent]:
        """What to send, a ping where there was nothing for a while; ends when the stream is closed."""
        while not self.is_closed:
            grants, self._waiting = self._waiting, None
            if grants is not None:
                yield GrantsPush(grants=grants)
                continue
            if self._kills:
                yield KillTaskPush(id=self._take_kill())
                continue
            pause = self._told_at + self._count_seconds - anyio.current_time() if self._may_wait else 0.0
            if self._pending is not None and pause <= 0:
                pending, self._pending = self._pending, None
                self._pending_told, self._told_at = pending, anyio.current_time()
                yield InboxPush(pending=pending)
                continue
            self._news = anyio.Event()
            with anyio.move_on_after(pause if pause > 0 else self._ping_seconds) as waited:
                await self._news.wait()
            if waited.cancelled_caught and self._pending is None:
                yield Ping()

    def _take_kill(self) -> str:
        first = next(iter(self._kills))
        del self._kills[first]
        return first

    @property
    def _may_wait(self) -> bool:
        """Whether what is to be told is only how many wait, and not whether any do."""
        return bool(self._pending and self._pending_told)
