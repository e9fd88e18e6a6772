"""The tasks of a daemon that have not ended: which have a place, and who waits for news of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.tasks.live import LiveTask


@dataclass(slots=True)
class OpenTask:
    """One of them.

    Attributes:
        has_place: whether it runs, or is about to.
        live: the connection to its supervisor, once there is one.
        attached: set when `live` is there, or when there will be none.
        news: set and replaced whenever something about it changes.
    """

    has_place: bool
    live: LiveTask | None = None
    attached: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_waiting_for_input(self) -> bool:
        return self.live is not None and self.live.is_waiting_for_input

    def tell(self) -> None:
        """Wake all who wait for news now."""
        self.news.set()
        self.news = asyncio.Event()


class Places:
    """Open tasks by id, and those without a place in the order in which they get one."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._open: dict[str, OpenTask] = {}
        self._queue: deque[str] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return len(self._open) - len(self._queue)

    def has_free(self) -> bool:
        """Whether a new task may begin at once: nobody who came before it waits."""
        return not self._queue and self.running < self._count

    def find(self, task_id: str) -> OpenTask | None:
        return self._open.get(task_id)

    def add(self, task_id: str, *, has_place: bool) -> OpenTask:
        """A task that runs, or waits at the end of the queue."""
        self._open[task_id] = OpenTask(has_place)
        if not has_place:
            self._queue.append(task_id)
        return self._open[task_id]

    def remove(self, task_id: str) -> None:
        """A task has ended: all who wait for news of it hear that."""
        found = self._open.pop(task_id)
        if not found.has_place:
            self._queue.remove(task_id)
        found.attached.set()
        found.tell()

    def fill(self) -> Iterator[str]:
        """Give free places to those who wait, one by one."""
        while self._queue and self.running < self._count:
            task_id = self._queue.popleft()
            self._open[task_id].has_place = True
            yield task_id
