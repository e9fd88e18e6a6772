"""Where the output of an agent's tasks lies, how much of it may, and when it goes.

The directory is below the agent's own, so nothing in it is trusted: it is opened without following links, and
every use goes through its descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from shared.errors import Unavailable
from shared.runtime.files import open_directory
from shared.runtime.ids import new_ulid
from shared.runtime.log import get_logger
from shared.runtime.threads import in_thread
from shared.tasks.model import STREAMS, End
from shared.tasks.output.recovery import find_end, merge_stream
from shared.tasks.output.retention import remove_task
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.registry import TaskRegistry, TaskRow
from shared.tasks.request import TaskLimits

# What a task may keep of its output when the quota is used up.
LEAST_BYTES: Final = 256 * 1024
# Unread results stay this many times as long.
UNREAD_FACTOR: Final = 4
# Rows of swept tasks stay so long, to say that they were swept.
_ROW_FACTOR: Final = 8
_PAGE: Final = 100
_FREED_AT_ONCE: Final = 10
# A task may keep this part of what is left.
_SHARES: Final = 4
_BLOCK_BYTES: Final = 4_096
# Nothing, a file, or a symbolic link, which is not followed.
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
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
        # What the running may keep, by their ids, and what the ended have kept.
        self._granted: dict[str, int] = {}
        self._kept = registry.sum_kept()
        self.directory = state_dir / below

    @contextlib.contextmanager
    def open_directory(self) -> Iterator[int]:
        """A descriptor of the directory; made where it is not there, and what is in its place moved aside.

        Raises:
            Unavailable: when it cannot be made.
        """
        with contextlib.ExitStack() as stack:
            try:
                descriptor = stack.enter_context(self._open())
            except OSError as exc:
                raise Unavailable(
                    f"the directory of tasks' output, {self.directory}, cannot be used: {exc.strerror}; it "
                    "must be a directory, or nothing"
                ) from exc
            yield descriptor

    async def make_room(self, task_id: str) -> int:
        """How many bytes of output a new task may keep. Old results that were read go for it."""
        if self._is_short():
            await in_thread(self._free)
        # A part of what is left, so that there is some for those who come while this one runs.
        granted = min(self._limits.output_bytes, max(LEAST_BYTES, self._find_left() // _SHARES))
        self._granted[task_id] = granted
        return granted

    def settle(self, task_id: str, end: End) -> int:
        """A task has ended: what it really keeps counts from now on; returns that."""
        self._granted.pop(task_id, None)
        kept = sum(_find_kept(stream) for stream in end["streams"].values())
        self._kept += kept
        return kept

    def find_ends(self, task_id: str, reason: str) -> dict[str, dict[str, int | str | bool | None]]:
        """How the streams of a task ended for which nobody has written it, off its files. Blocks.

        Raises:
            Unavailable: when the directory cannot be used.
        """
        with self.open_directory() as directory:
            return {
                stream: find_end(directory, f"{task_id}.{stream}", reason=reason).to_record()
                for stream in STREAMS
            }

    def join(self, task_id: str, end: End) -> None:
        """Put what was kept of each stream into one file, where its supervisor has not. Blocks."""
        with contextlib.suppress(Unavailable), self.open_directory() as directory:
            for stream, record in end["streams"].items():
                if record["dropped_bytes"] or record["total_bytes"] != record["head_bytes"]:
                    merge_stream(directory, f"{task_id}.{stream}", StreamEnd.from_record(record))

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

    def _is_short(self) -> bool:
        """Whether what has really been kept leaves too little for a task to keep all that one may."""
        wanted = min(self._limits.output_bytes * _SHARES, self._limits.quota_bytes // 2)
        return self._limits.quota_bytes - self._kept < wanted

    def _find_left(self) -> int:
        return self._limits.quota_bytes - self._kept - sum(self._granted.values())

    def _free(self) -> None:
        """Remove results that were read, the oldest first, until there is room."""
        while self._is_short():
            rows = self._registry.list_kept(
                before=int(self._clock()) + 1, is_shown=True, limit=_FREED_AT_ONCE
            )
            if not rows:
                return
            for row in rows:
                self._remove(row, MADE_ROOM)
                if not self._is_short():
                    break

    def _remove(self, row: TaskRow, why: str) -> None:
        with contextlib.suppress(Unavailable), self.open_directory() as directory:
            remove_task(directory, row.id)
        self._registry.mark_swept(row.id, why)
        self._kept -= row.kept_bytes
        log.info("task_output_removed", task=row.id, bytes=row.kept_bytes, why=why)

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            try:
                descriptor = stack.enter_context(open_directory(self.directory, within=self._state_dir))
            except OSError as exc:
                if exc.errno not in _NOT_THERE:
                    raise
                self._make()
                descriptor = stack.enter_context(open_directory(self.directory, within=self._state_dir))
            yield descriptor

    def _make(self) -> None:
        path = self._state_dir
        for part in self._below.parts:
            with open_directory(path, within=self._state_dir) as parent:
                _move_aside(parent, part)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=parent)
            path /= part


def _move_aside(parent: int, name: str) -> None:
    """Give what is no directory another name: an agent is not to lose its shell by it."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            new_name = f"{name}.moved-{new_ulid()}"
            os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=parent)
            log.warning("obstacle_moved_aside", name=name, new_name=new_name)


def _find_kept(record: dict[str, int | str | bool | None]) -> int:
    """What a stream takes on the disk, in whole blocks."""
    kept = int(record["total_bytes"] or 0) - int(record["dropped_bytes"] or 0)
    return -(-kept // _BLOCK_BYTES) * _BLOCK_BYTES
