"""Tells the agent of ended tasks: one todo a task, unless an answer has shown its end; cleared once one has.

What is to be told is in the registry, so a kill between any two lines repeats a message at most, and its
`event_id` makes the repetition do nothing. Without an in-agent socket, or while nobody listens there, it
waits on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import anyio

from shared.errors import HiveError, InvalidInput
from shared.runtime.backoff import Backoff
from shared.runtime.line_client import ask
from shared.runtime.log import get_logger
from shared.runtime.threads import in_thread
from shared.tasks.registry import TaskRegistry, TaskRow

_PAGE: Final = 100
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0

log = get_logger()


class Describe(Protocol):
    """Words for a todo: its summary, which is one line, and its detail. May block."""

    def __call__(self, row: TaskRow) -> tuple[str, str | None]: ...


class Courier:
    """Carries todos of one surface's tasks. For one event loop.

    Args:
        subsystem: the todos' subsystem: the surface's name.
        agent_socket: the in-agent socket; None where there is none.
    """

    def __init__(
        self,
        subsystem: str,
        *,
        agent_socket: Path | None,
        registry: TaskRegistry,
        describe: Describe,
    ) -> None:
        self._subsystem = subsystem
        self._socket = agent_socket
        self._registry = registry
        self._describe = describe
        self._work = asyncio.Event()
        # How many answers are under way that will show a task as it is.
        self._watched: Counter[str] = Counter()
        # Tasks that have ended and whose end no answer has shown.
        self._unshown: set[str] = set()
        # The prompts of tasks that wait for input, by number, of which is to be seen whether they are told.
        self._prompts: dict[str, int] = {}

    @contextlib.contextmanager
    def watching(self, task_id: str) -> Iterator[None]:
        """Say that an answer is under way that will show this task: nothing is told of it meanwhile."""
        self._watched[task_id] += 1
        try:
            yield
        finally:
            self._watched[task_id] -= 1
            if not self._watched[task_id]:
                del self._watched[task_id]
                if task_id in self._unshown or task_id in self._prompts:
                    # It came to nothing: the caller has gone.
                    self._work.set()

    def add_end(self, task_id: str) -> None:
        """A task has ended, and that is stored."""
        self._unshown.add(task_id)
        self._prompts.pop(task_id, None)
        if task_id not in self._watched:
            self._work.set()

    def note_shown(self, task_id: str) -> None:
        """An answer shows the end of a task: of it nothing is left to tell.

        Raises:
            Unavailable: when that cannot be stored.
        """
        if self._registry.mark_shown(task_id):
            # There is a todo of it.
            self._work.set()
        self._unshown.discard(task_id)

    def add_prompt(self, task_id: str, number: int) -> None:
        """A task waits for input, for the so many-th time."""
        self._prompts[task_id] = number
        self._work.set()

    def forgive_prompt(self, task_id: str, number: int) -> None:
        """An answer has shown whether a task waits, or it got input: of that nothing is left to tell."""
        self._prompts.pop(task_id, None)
        self._registry.forgive_prompt(task_id, number)
        self._work.set()

    async def run(self) -> None:
        """Carry what there is, for ever. Pauses grow while nobody takes it."""
        pauses = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._carry()
                pauses.reset()
            except HiveError as exc:
                log.info("todos_waiting", code=exc.code)
                self._work.set()
                await anyio.sleep(pauses.next())

    async def _carry(self) -> None:
        if self._socket is None:
            return
        while outdated := self._registry.list_outdated(_PAGE):
            for row in outdated:
                await self._send("clear_todo", key=row.id)
                self._registry.settle(row.id)
        while answered := self._registry.list_answered(_PAGE):
            for task_id in answered:
                await self._send("clear_todo", key=task_id)
                self._registry.settle_prompt(task_id)
        for row in self._registry.list_untold(_PAGE):
            if row.id not in self._watched:
                self._registry.mark_telling(row.id)
                await self._upsert(row, f"{row.id}:end")
                self._registry.mark_told(row.id)
                # There may be more than a page, and this one may have been shown meanwhile.
                self._work.set()
        for task_id, number in list(self._prompts.items()):
            # Where it is watched, there is another look once it is not.
            if task_id not in self._watched:
                found = self._registry.find(task_id)
                if found is not None and self._registry.prompt(task_id, number):
                    await self._upsert(found, f"{task_id}:input:{number}")
                if self._prompts.get(task_id) == number:
                    del self._prompts[task_id]

    async def _upsert(self, row: TaskRow, event_id: str) -> None:
        summary, detail = await in_thread(self._describe, row)
        try:
            await self._send("upsert_todo", key=row.id, summary=summary, detail=detail, event_id=event_id)
        except InvalidInput as exc:
            # It would be refused for ever.
            log.error("todo_refused", task=row.id, error=exc.message)  # noqa: TRY400

    async def _send(self, cmd: str, **fields: object) -> None:
        if self._socket is not None:
            await ask(self._socket, {"cmd": cmd, "subsystem": self._subsystem, **fields})
