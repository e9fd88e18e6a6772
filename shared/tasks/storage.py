"""Where the output of an agent's tasks lies, how much of it may, and when it goes.

The directory is below the agent's own, so nothing in it is trusted: it is opened without following links, and
every use goes through its descriptor.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import anyio

from shared.errors import Unavailable
from shared.runtime.files import open_directory
from shared.runtime.log import get_logger
from shared.tasks.output.retention import measure_task, remove_task
from shared.tasks.registry import TaskRegistry, TaskRow
from shared.tasks.request import TaskLimits

STREAMS: Final = ("out", "err")
# What a task may keep of its output when the quota is used up.
LEAST_BYTES: Final = 256 * 1024
# Unread results stay this many times as long.
UNREAD_FACTOR: Final = 4
# Rows of swept tasks stay so long, to say that they were swept.
_ROW_FACTOR: Final = 8
_PAGE: Final = 100
EXPIRED: Final = "it was kept long enough"
MADE_ROOM: Final = "newer tasks needed the room"

log = get_logger()


class TaskStorage:
    """The output of one surface's tasks.

    Args:
        state_dir: the agent's own directory.
        below: the path of the directory of output from there.
        registry: which tasks there are, and what of them is kept.
        clock: unix seconds.
    """

    def __init__(
        self,
        state_dir: Path,
        below: str,
        *,
        registry: TaskRegistry,
        limits: TaskLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state_dir = state_dir
        self._below = Path(below)
        self._registry = registry
        self._limits = limits
        self._clock = clock
        self._granted: dict[str, int] = {}
        self.directory = state_dir / below

    @contextlib.contextmanager
    def open_directory(self) -> Iterator[int]:
        """A descriptor of the directory, which is made where it is not there.

        Raises:
            Unavailable: when the agent has put something else in its place, or it cannot be made.
        """
        with contextlib.ExitStack() as stack:
            try:
                self._make()
                descriptor = stack.enter_context(open_directory(self.directory, within=self._state_dir))
            except OSError as exc:
                raise Unavailable(
                    f"the directory of tasks' output, {self.directory}, cannot be used: {exc.strerror}; it "
                    "must be a directory, or nothing"
                ) from exc
            yield descriptor

    async def make_room(self, task_id: str) -> int:
        """How many bytes of output a new task may keep. Old results that were read go for it."""
        return await anyio.to_thread.run_sync(self._make_room, task_id)

    def release(self, task_id: str) -> None:
        """A task has ended: what it really keeps counts from now on."""
        self._granted.pop(task_id, None)

    def measure(self, task_id: str) -> int:
        """Bytes on disk of a task's output."""
        with contextlib.suppress(Unavailable), self.open_directory() as directory:
            return measure_task(directory, task_id)
        return 0

    def sweep(self) -> None:
        """Remove the output of tasks that ended long ago, of unread ones later, and at last their rows.

        Raises:
            Unavailable: when the registry cannot be read or written.
        """
        now, kept = int(self._clock()), self._limits.retention_seconds
        for is_shown, seconds in ((True, kept), (None, kept * UNREAD_FACTOR)):
            while rows := self._registry.list_kept(before=now - seconds, is_shown=is_shown, limit=_PAGE):
                for row in rows:
                    self._remove(row, EXPIRED)
        self._registry.forget(before=now - kept * _ROW_FACTOR)

    def _make_room(self, task_id: str) -> int:
        granted = sum(self._granted.values())
        while (
            used := self._registry.sum_kept()
        ) + granted + self._limits.output_bytes > self._limits.quota_bytes:
            rows = self._registry.list_kept(before=int(self._clock()) + 1, is_shown=True, limit=1)
            if not rows:
                break
            self._remove(rows[0], MADE_ROOM)
        left = self._limits.quota_bytes - used - granted
        # A part of what is left, so that there is some for all who come while this one runs.
        self._granted[task_id] = min(self._limits.output_bytes, max(LEAST_BYTES, left // 8))
        return self._granted[task_id]

    def _remove(self, row: TaskRow, why: str) -> None:
        with contextlib.suppress(Unavailable), self.open_directory() as directory:
            remove_task(directory, row.id)
        self._registry.mark_swept(row.id, why)
        log.info("task_output_removed", task=row.id, bytes=row.kept_bytes, why=why)

    def _make(self) -> None:
        path = self._state_dir
        for part in self._below.parts:
            with open_directory(path, within=self._state_dir) as parent, contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=parent)
            path /= part
