"""Tells each agent's daemon how many messages wait, as a level: what was missed does no harm.

Costs a send no query: the writer knows the number. Where nobody does, it is read once for all who need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.hub import ControlHub
from services.broker.store import Store, Topic, Tx
from shared.errors import HiveError

# Of several brokers on one database each looks so often, in case that news went missing.
POLL_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


class InboxLevels:
    """Run `run` in a task. For the event loop only."""

    def __init__(self, store: Store, hub: ControlHub) -> None:
        self._store = store
        self._hub = hub
        self._stale: set[int] = set()
        self._news = anyio.Event()
        store.watch_inboxes(self._take, is_afar=hub.is_afar)
        store.on_news(Topic.INBOXES, self._hear)

    def refresh(self, agent_id: int) -> None:
        """Have an agent's daemon told what waits: it has connected, or nobody knows the number."""
        if self._hub.find(agent_id, "hyperhive") is not None:
            self._stale.add(agent_id)
            self._news.set()

    async def run(self) -> None:
        """Read and tell what is asked for, until cancelled."""
        while True:
            with anyio.move_on_after(POLL_SECONDS):
                await self._news.wait()
            if not self._news.is_set() and self._store.is_shared:
                self._refresh_all()
            self._news = anyio.Event()
            if not self._stale:
                continue
            # Who is named while these are read needs another reading.
            asked, self._stale = self._stale, set()
            try:
                await self._tell(sorted(asked))
            except HiveError as exc:
                _log.warning("inboxes_not_counted", code=exc.code, reason=exc.message)
                self._stale |= asked
                self._news.set()
                await anyio.sleep(_RETRY_SECONDS)

    async def _tell(self, agent_ids: list[int]) -> None:
        found = (self._hub.find(agent_id, "hyperhive") for agent_id in agent_ids)
        streams = [(stream, stream.inbox_pushes) for stream in found if stream is not None]
        counts = await self._store.read(partial(_count, agent_ids=agent_ids))
        for stream, pushes in streams:
            # What was pushed meanwhile came from a commit, and who commits later pushes again.
            if stream.inbox_pushes == pushes:
                stream.push_inbox(counts.get(stream.agent_id, 0))

    def _take(self, inboxes: Mapping[int, int | None]) -> None:
        for agent_id, pending in inboxes.items():
            stream = self._hub.find(agent_id, "hyperhive")
            if stream is None:
                continue
            if pending is None:
                self.refresh(agent_id)
            else:
                stream.push_inbox(pending)

    def _hear(self, agent_id: int | None) -> None:
        if agent_id is None:
            self._refresh_all()
        else:
            self.refresh(agent_id)

    def _refresh_all(self) -> None:
        for stream in self._hub.list_streams():
            self.refresh(stream.agent_id)


def _count(tx: Tx, *, agent_ids: list[int]) -> dict[int, int]:
    return tx.inbox.count_pending_by_agent(agent_ids)
