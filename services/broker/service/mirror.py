"""Keeps the streams of this broker and those of others in step, where several brokers share a database.

Each writes its own into a table and reads the others'. So a change of grants made at one reaches daemons that
are connected to another, their confirmations come back, and a daemon counts as connected wherever it is.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.hub import ControlHub
from services.broker.service.stream import ControlStream
from services.broker.store import Store, Topic, Tx
from services.broker.store.streams import OpenStream
from shared.errors import HiveError
from shared.wire.agents import Grants

# News wakes; this is for what a broker that died did not tell.
POLL_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)

Seen = tuple[list[OpenStream], set[int], dict[int, Grants]]


class StreamMirror:
    """Run `run` in a task; it ends at once where no database is shared."""

    def __init__(self, store: Store, hub: ControlHub) -> None:
        self._store = store
        self._hub = hub
        self._news = anyio.Event()
        hub.on_change = self.wake
        store.on_news(Topic.STREAMS, self._hear)
        store.on_news(Topic.GRANTS, self._hear)
        store.on_news(Topic.CUT, self._cut)

    def wake(self) -> None:
        """Say that something has changed here or elsewhere."""
        self._news.set()

    async def run(self) -> None:
        """Keep in step until cancelled."""
        told: str | None = None
        while self._store.is_shared:
            news = self._news = anyio.Event()
            try:
                await self.sync()
                told = None
            except HiveError as exc:
                if exc.message != told:
                    _log.warning("streams_not_shared", code=exc.code, reason=exc.message)
                told = exc.message
            with anyio.move_on_after(POLL_SECONDS):
                await news.wait()

    async def sync(self) -> None:
        """Read what others wrote and write what they must know."""
        agents = {stream.agent_id for stream in self._hub.list_streams()}
        rows, brokers, grants = await self._store.read(partial(_look, agent_ids=sorted(agents)))
        me = self._store.broker
        mine = {(row.agent_id, row.unit): row for row in rows if row.broker == me}
        there = [row for row in rows if row.broker != me and row.broker in brokers]
        for agent_id in agents - grants.keys():
            self._hub.close_agent(agent_id)
        for agent_id, one in grants.items():
            self._hub.push(agent_id, one)
        self._give_way(mine, there)
        self._hub.set_elsewhere(there)
        streams = self._hub.list_streams()
        known = [(stream, _row_of(mine, stream)) for stream in streams]
        kept = {row.id for row in there} | {row.id for _, row in known if row is not None}
        stale = {row.id for row in rows} - kept
        new = [_describe(me, stream) for stream, row in known if row is None]
        late = [
            _describe(me, stream)
            for stream, row in known
            if row is not None and row.confirmed < stream.confirmed
        ]
        if stale or new or late:
            await self._store.write(partial(_write, stale=stale, new=new, late=late))

    def _give_way(self, mine: dict[tuple[int, str], OpenStream], there: list[OpenStream]) -> None:
        """End streams of daemons that have dialled another broker since; take in what was confirmed there."""
        later = {(row.agent_id, row.unit): row for row in there}
        for stream in self._hub.list_streams():
            row = _row_of(mine, stream)
            if row is None:
                continue
            self._hub.confirm(stream.agent_id, stream.unit, stream.boot, row.confirmed)
            other = later.get((stream.agent_id, stream.unit))
            if other is not None and other.id > row.id and other.boot >= stream.boot:
                stream.close()

    def _hear(self, _subject: int | None) -> None:
        self.wake()

    def _cut(self, agent_id: int | None) -> None:
        """A credential has ended; after a gap in the news, who knows whose."""
        if agent_id is None:
            self._hub.close_all()
        else:
            self._hub.close_agent(agent_id)


def _look(tx: Tx, *, agent_ids: list[int]) -> Seen:
    return tx.streams.list_all(), tx.streams.list_brokers(), tx.agents.list_grants(agent_ids)


def _write(tx: Tx, *, stale: set[int], new: list[OpenStream], late: list[OpenStream]) -> None:
    tx.streams.delete(stale)
    for row in new:
        tx.streams.insert(row)
    for row in late:
        tx.streams.confirm(row.agent_id, row.unit, row.boot, row.confirmed)
    tx.announce(Topic.STREAMS)


def _row_of(mine: dict[tuple[int, str], OpenStream], stream: ControlStream) -> OpenStream | None:
    row = mine.get((stream.agent_id, stream.unit))
    return row if row is not None and row.boot == stream.boot else None


def _describe(broker: int, stream: ControlStream) -> OpenStream:
    return OpenStream(broker, stream.agent_id, stream.unit, stream.boot, stream.confirmed)
