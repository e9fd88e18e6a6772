"""Todos of one agent: needs no broker, and keeps what it has answered through any kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import anyio

from services.hyperhive_mcp.store import TodoStore
from shared.wire.todos import Todo, UpsertTodo

T = TypeVar("T")


class TodoService:
    """Open todos, and whether any is news.

    Args:
        store: where they are.
        clock: unix seconds.
    """

    def __init__(self, store: TodoStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        # In the order of arrival, and never more threads than one.
        self._turn = anyio.CapacityLimiter(1)
        self.has_news = store.has_news()
        self._listeners: list[Callable[[], None]] = []

    def watch(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after every change, in the event loop."""
        self._listeners.append(listener)

    async def upsert(self, todo: UpsertTodo) -> int:
        """Make or change the todo of a subsystem and key; returns its id. Durable when it returns.

        Raises:
            LimitExceeded: when too many are open.
        """
        return await self._change(partial(self._store.upsert, todo, now=int(self._clock())))

    async def clear(self, subsystem: str, key: str) -> bool:
        """Clear one; says whether it was open."""
        return await self._change(partial(self._store.clear, subsystem, key))

    async def clear_ids(self, ids: Iterable[int]) -> list[int]:
        """Clear those of `ids` that are open; returns them."""
        return await self._change(partial(self._store.clear_ids, list(ids)))

    async def list(self) -> Sequence[Todo]:
        """All that are open, the oldest first."""
        return await self._run(self._store.list)

    async def mark_shown(self, revisions: Mapping[int, int]) -> None:
        """Note what a good turn was shown, id to revision: it is news no more."""
        await self._change(partial(self._store.mark_shown, dict(revisions)))

    async def _change(self, change: Callable[[], T]) -> T:
        def work() -> tuple[T, bool]:
            return change(), self._store.has_news()

        result, self.has_news = await self._run(work)
        for listener in self._listeners:
            listener()
        return result

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._turn)
