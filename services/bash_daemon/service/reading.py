"""What answers show of a task's output: the last lines, a page, or the lines that match. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from services.bash_daemon.service.wording import (
    Swept,
    Tails,
    render_matches,
    render_page,
    render_swept,
    render_todo,
)
from shared.errors import InvalidInput, Unavailable
from shared.tasks.model import STREAMS, End, StreamRecord, TaskState
from shared.tasks.output.search import search
from shared.tasks.output.stored import StreamFiles
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.output.views import MAX_PAGE_BYTES, PAGE_BYTES, TAIL_BYTES, View, page, tail_view
from shared.tasks.registry import TaskRow
from shared.tasks.storage import TaskStorage

T = TypeVar("T")
Stream = Literal["out", "err"]
Streams = Mapping[str, StreamFiles]
TODO_TAIL_BYTES = 1_000


@dataclass(frozen=True)
class PageRequest:
    """A part of one stream that was asked for."""

    stream: Stream
    offset: int
    max_bytes: int
    grep: str | None

    @classmethod
    def of(
        cls, stream: Stream | None, offset: int | None, max_bytes: int | None, grep: str | None
    ) -> PageRequest | None:
        """None when nothing of it was said, so that the task as a whole is meant.

        Raises:
            InvalidInput: when more is asked for than one answer holds.
        """
        if stream is None and offset is None and max_bytes is None and grep is None:
            return None
        if max_bytes is not None and max_bytes > MAX_PAGE_BYTES:
            raise InvalidInput(f"max_bytes is at most {MAX_PAGE_BYTES}; read on at the next offset")
        return cls(stream or "out", offset or 0, max_bytes or PAGE_BYTES, grep)


class OutputReader:
    """Reads what tasks wrote.

    Args:
        storage: where it is.
        find_end: how a task has ended, as its supervisor wrote it; None while it has not. Files of a task
            that has just ended are being joined, and are read by what is written there.
    """

    def __init__(self, storage: TaskStorage, find_end: Callable[[str], End | None]) -> None:
        self._storage = storage
        self._find_end = find_end

    def find_nothing(self, row: TaskRow) -> Tails | None:
        """What `view_tails` shows of a task that has ended and wrote nothing: no file is read for it."""
        if row.end is None or row.swept is not None:
            return None
        never_ran = not row.end["streams"] and row.state is not TaskState.INTERRUPTED
        if not never_ran and set(row.end["streams"]) != set(STREAMS):
            return None
        if any(end["total_bytes"] or end["removed"] for end in row.end["streams"].values()):
            return None
        return Tails(dict.fromkeys(STREAMS, View("", 0, 0, 0)), dict.fromkeys(STREAMS, ""))

    def view_tails(self, row: TaskRow, *, max_bytes: int = TAIL_BYTES) -> Tails | Swept:
        """The last of each stream."""
        if row.swept is not None:
            return Swept(row.swept)
        views = self._look(
            row, lambda streams: {stream: tail_view(files, max_bytes) for stream, files in streams.items()}
        )
        paths = {stream: str(self._storage.directory / f"{row.id}.{stream}") for stream in STREAMS}
        return Tails(views, paths)

    def view_or_explain(self, row: TaskRow, *, max_bytes: int = TAIL_BYTES) -> Tails | Swept:
        """The same, or why it cannot be seen: of how a task ended that takes nothing away."""
        try:
            return self.view_tails(row, max_bytes=max_bytes)
        except Unavailable as exc:
            return Swept(exc.message, is_removed=False)

    def read(self, row: TaskRow, asked: PageRequest) -> str:
        """A page, or the lines of one stream that match.

        Raises:
            InvalidInput: for an offset past the end, or an expression that is none.
        """
        if row.swept is not None:
            return render_swept(row)

        def look(streams: Streams) -> str:
            files = streams[asked.stream]
            if asked.grep is not None:
                found = search(files, asked.grep, offset=asked.offset, max_bytes=asked.max_bytes)
                return render_matches(row, asked.stream, found)
            return render_page(row, asked.stream, page(files, asked.offset, asked.max_bytes))

        return self._look(row, look)

    def describe(self, row: TaskRow) -> tuple[str, str | None]:
        """Summary and detail of a todo about a task."""
        return render_todo(row, self.view_or_explain(row, max_bytes=TODO_TAIL_BYTES))

    def _look(self, row: TaskRow, look: Callable[[Streams], T]) -> T:
        """Read a task's streams; once more, if it has ended meanwhile."""
        while True:
            end = row.end or self._find_end(row.id)
            ends = end["streams"] if end else {}
            with self._storage.open_directory() as directory:
                found = look({stream: _files(directory, row.id, stream, ends) for stream in STREAMS})
            if end is not None or self._find_end(row.id) is None:
                return found


def _files(directory: int, task_id: str, stream: str, ends: Mapping[str, StreamRecord]) -> StreamFiles:
    end = StreamEnd.from_record(ends[stream]) if stream in ends else None
    return StreamFiles(directory, f"{task_id}.{stream}", end)
