"""What of a stream is on disk: a snapshot of its files as pieces of the stream, read by stream position.

Opened for one answer, closed with it. Whatever is done to the files, reading ends in bytes or in a hole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from shared.tasks.output.files import list_segments, open_file, parse_segment, segment_name
from shared.tasks.output.stream_end import StreamEnd

# A running task exchanges segments while they are looked up.
_ATTEMPTS = 5


@dataclass(frozen=True)
class StreamFiles:
    """Where a stream is.

    Args:
        directory_fd: the directory of tasks.
        name: the stream's file in it, `<id>.out` or `<id>.err`.
        end: how it ended; None while the task runs. Where nobody wrote one, `recovery.find_end` makes it.
    """

    directory_fd: int
    name: str
    end: StreamEnd | None = None


@dataclass(frozen=True)
class Piece:
    """Bytes `start` to `end` of the stream, in a file at `start - shift`."""

    start: int
    end: int
    fd: int
    shift: int


@dataclass(frozen=True)
class Chunk:
    """Unbroken bytes of the stream; `start` is later than asked for where a hole was in front."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after them."""
        return self.start + len(self.data)


class StoredStream:
    """A snapshot of a stream; a context manager.

    `total_bytes` counts what the task wrote. `removed` says that the file is not there any more.
    """

    def __init__(self, files: StreamFiles) -> None:
        self._fds: list[int] = []
        self.pieces: list[Piece] = []
        self.removed = False
        self.head_bytes = 0
        self.dropped_bytes = 0
        self.total_bytes = files.end.total_bytes if files.end else 0
        self._take(files)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, start: int, count: int) -> Chunk:
        """Up to `count` bytes from `start`, or from the first later byte that is there; empty at the end.

        What begins in one piece goes on into the next where that follows without a hole.
        """
        found = bytearray()
        at = start
        for piece in self.pieces:
            if piece.end <= at:
                continue
            if piece.start > at:
                if found:
                    break
                start = at = piece.start
            wanted = min(piece.end - at, count - len(found))
            got = _pread(piece.fd, wanted, at - piece.shift)
            found += got
            if len(got) < wanted or len(found) >= count:
                if found:
                    break
                start = at = piece.end  # cut short since the snapshot was taken
                continue
            at += len(got)
        if not found:
            start = max(start, self.total_bytes)
        return Chunk(start, bytes(found))

    def last_run(self, end: int) -> tuple[int, int]:
        """(start, end) of the last unbroken run that begins before `end`; (0, 0) where there is none."""
        run_start = run_end = 0
        for piece in self.pieces:
            if piece.start >= end:
                break
            if piece.start != run_end or run_start == run_end:
                run_start = piece.start
            run_end = min(piece.end, end)
        return run_start, run_end

    def find_hole(self, start: int, end: int) -> tuple[int, int] | None:
        """(from, to) of the first bytes between `start` and `end` that are not there."""
        for piece in self.pieces:
            if piece.end <= start:
                continue
            if piece.start > start:
                return (start, min(piece.start, end)) if start < end else None
            start = piece.end
        return (start, end) if start < end else None

    def _take(self, files: StreamFiles) -> None:
        for attempt in range(_ATTEMPTS):
            head_fd = self._open(files, files.name)
            segments, complete = self._open_segments(files)
            if complete or attempt == _ATTEMPTS - 1:
                break
            self._close()
        self._lay_out(files, head_fd, segments)

    def _lay_out(self, files: StreamFiles, head_fd: int | None, segments: list[tuple[int, str, int]]) -> None:
        self.removed = head_fd is None
        size = 0 if head_fd is None else os.fstat(head_fd).st_size
        end = files.end
        if end is not None:
            head, shift = end.head_bytes, end.dropped_bytes
        elif segments:
            parsed = parse_segment(files.name, segments[0][1])
            head = parsed[0] if parsed else size
            shift = segments[0][0] - head
        else:
            head, shift = size, 0
        pieces = []
        if head_fd is not None:
            pieces.append(Piece(0, min(head, size), head_fd, 0))
        last = head + shift
        for index, (start, _, fd) in enumerate(segments):
            limit = segments[index + 1][0] if index + 1 < len(segments) else None
            stop = start + os.fstat(fd).st_size
            pieces.append(Piece(start, stop if limit is None else min(stop, limit), fd, start))
            last = max(last, pieces[-1].end)
        # The tail is merged from its end on: what follows the last segment stands in the head's file already.
        if head_fd is not None and size > head:
            pieces.append(Piece(last, size + shift, head_fd, shift))
        if end is None:
            self.total_bytes = max([0, *(piece.end for piece in pieces)])
        total = self.total_bytes
        self.pieces = [
            Piece(piece.start, min(piece.end, total), piece.fd, piece.shift)
            for piece in pieces
            if piece.start < min(piece.end, total)
        ]
        self.head_bytes, self.dropped_bytes = head, shift

    def _open_segments(self, files: StreamFiles) -> tuple[list[tuple[int, str, int]], bool]:
        """((start, file, descriptor) of each segment, whether none vanished meanwhile)."""
        end = files.end
        if end is not None:
            first = segment_name(files.name, end.head_bytes, end.tail_start)
            # The first one is the last to be merged: without it there are none, and no need to look for them.
            if end.total_bytes <= end.head_bytes or not _exists(files.directory_fd, first):
                return [], True
        opened, complete = [], True
        for start, file in list_segments(files.directory_fd, files.name):
            fd = self._open(files, file)
            if fd is None:
                complete = False
            elif os.fstat(fd).st_size:
                opened.append((start, file, fd))
        return opened, complete

    def _open(self, files: StreamFiles, file: str) -> int | None:
        try:
            fd = open_file(files.directory_fd, file)
        except OSError:
            return None
        self._fds.append(fd)
        return fd

    def _close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def _exists(directory_fd: int, file: str) -> bool:
    try:
        os.stat(file, dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _pread(fd: int, count: int, position: int) -> bytes:
    found = b""
    while len(found) < count:
        try:
            got = os.pread(fd, count - len(found), position + len(found))
        except OSError:
            break
        if not got:
            break
        found += got
    return found
