"""Writes to the standard input of tasks that run."""

from __future__ import annotations

from typing import Final

import anyio

from shared.errors import Conflict, LimitExceeded
from shared.tasks.live import LiveTask
from shared.tasks.places import Places
from shared.tasks.registry import TaskRegistry

_ATTACH_SECONDS: Final = 5.0


class Feeder:
    """Finds a task's supervisor, and hands on what was sent.

    Args:
        places: the tasks that run or wait.
        registry: those that have ended.
    """

    def __init__(self, places: Places, registry: TaskRegistry) -> None:
        self._places = places
        self._registry = registry

    async def send(self, task_id: str, text: str, *, eof: bool) -> int:
        """Write, and then perhaps end the input; returns the number of the prompt that it answers.

        Raises:
            NotFound: when there is no such task.
            Conflict: when it has ended, does not run yet, or its input is closed.
            LimitExceeded: when it has not read what was sent before.
            Unavailable: when its supervisor does not answer.
        """
        live = await self._find_live(task_id)
        reply = await live.ask({"cmd": "input", "text": text, "eof": eof})
        if reply.get("error") == "full":
            raise LimitExceeded(
                "the task has not read what was sent before; wait, and send again", code="input_full"
            )
        if not reply.get("ok"):
            raise Conflict(
                f"the input of task {task_id} is closed: it was started without `stdin`, its end was sent, "
                "or the task has closed it",
                code="input_closed",
            )
        live.is_waiting_for_input = False
        return live.prompt

    async def _find_live(self, task_id: str) -> LiveTask:
        found = self._places.find(task_id)
        if found is not None and not found.has_place:
            raise Conflict(f"task {task_id} has not begun; it waits for a place", code="task_pending")
        if found is not None:
            with anyio.move_on_after(_ATTACH_SECONDS):
                await found.attached.wait()
            if found.live is not None:
                return found.live
        raise Conflict(f"task {task_id} has ended: {self._registry.get(task_id).state}", code="task_ended")
