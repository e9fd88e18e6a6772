"""The spool of one stream of a task: takes what is on a pipe, keeps its first and last bytes within a cap.

Runs in the task's supervisor: one thread, no event loop, nothing imported that costs memory. It never blocks,
never raises because of a disk or of what the agent does to the files, and never leaves the pipe full: what
cannot be kept is counted and dropped, so that the task goes on.

What is kept is always the first `head_bytes` and one unbroken tail up to the last byte, so there is at most
one gap. When there is no room, the oldest segment of the tail goes first. Files stay open as long as they
count: truncating them frees the disk whatever names they have by then.
"""

from __future__ import annotations

import errno
import os
import time

from shared.tasks.output.files import copy_file, create_file, free_file, remove_file, segment_name
from shared.tasks.output.stream_end import StreamEnd

MIB = 1024 * 1024
# At most this much is taken in one `pump`, so that the supervisor comes round to its other descriptors.
STEP_BYTES = MIB
COPY_BYTES = 64 * 1024
# The tail is kept in about this many segments, so what is dropped at once is a small part of it; each holds a
# descriptor.
SEGMENTS = 8
# Free space is looked at each time so much was written. Without room, it is tried again after so much or so
# long.
CHECK_BYTES = 4 * MIB
RETRY_BYTES = MIB
RETRY_SECONDS = 1.0
# The tail while the disk is nearly full.
LOW_TAIL_BYTES = 256 * 1024

_NO_SPLICE = {errno.EINVAL, errno.ENOSYS}


class _Segment:
    """A piece of the tail: one file, filled from its beginning."""

    __slots__ = ("fd", "file", "length", "limit", "start")

    def __init__(self, fd: int, file: str, start: int, limit: int) -> None:
        self.fd = fd
        self.file = file
        self.start = start
        self.limit = limit
        self.length = 0


class Spool:
    """Stores one stream.

    Args:
        directory_fd: the directory of tasks; stays the caller's, open as long as the spool lives.
        name: the stream's file in it, as `<id>.out`.
        cap_bytes: kept on disk at most (for a moment of `merge`, one segment more); half of it for the head.
            One cap for each stream, not one for both: a flood on one cannot push out the other.
        floor_bytes: with less free space on the filesystem, the head grows no more and the tail is small.
    """

    def __init__(self, directory_fd: int, name: str, cap_bytes: int, *, floor_bytes: int = 256 * MIB) -> None:
        self.name = name
        self.total_bytes = 0
        self.head_bytes = 0
        self._directory_fd = directory_fd
        self._floor_bytes = floor_bytes
        self._head_limit = (cap_bytes + 1) // 2
        self._tail_limit = cap_bytes // 2
        self._segments: list[_Segment] = []
        self._reason: str | None = None
        self._end: StreamEnd | None = None
        self._low = False
        self._copying = not hasattr(os, "splice")
        self._check_at = 0
        self._retry_at = 0
        self._retry_time = 0.0
        self._head_fd = -1
        try:
            self._head_fd = create_file(directory_fd, name)
        except OSError as exc:
            self._reason = _explain(exc)

    @property
    def dropped_bytes(self) -> int:
        """How much was written and is not kept."""
        if self._end is not None:
            return self._end.dropped_bytes
        tail_start: int = self._segments[0].start if self._segments else self.total_bytes
        return tail_start - self.head_bytes

    @property
    def ends_within_a_line(self) -> bool:
        """Whether what was kept last is a line without its end, as a prompt leaves one."""
        fd, length = self._head_fd, self.head_bytes
        if self._segments:
            fd, length = self._segments[-1].fd, self._segments[-1].length
        if fd < 0 or not length:
            return False
        try:
            return os.pread(fd, 1, length - 1) not in {b"\n", b""}
        except OSError:
            return False

    def pump(self, source: int) -> int | None:
        """Take what is readable on `source`, which is non-blocking, and at most `STEP_BYTES` of it.

        Returns:
            How many bytes; 0 when the writers are all gone; None when nothing is there now.
        """
        while not self._copying:
            room = self._room()
            if room is None:
                break  # nothing old is given up before new bytes are really there
            fd, position, count = room
            try:
                taken = os.splice(
                    source,
                    fd,
                    min(count, STEP_BYTES),
                    offset_dst=position,
                    flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK,
                )
            except BlockingIOError:
                return None
            except OSError as exc:
                # In either case nothing has left the pipe.
                if exc.errno in _NO_SPLICE:
                    self._copying = True
                else:
                    self._step_back(exc)
                continue
            self._count(taken)
            return taken
        return self._copy(source)

    def finish(self) -> StreamEnd:
        """Tell how the stream ended. For the durable record, which is to be written before `merge`."""
        if self._end is None:
            dropped = self.dropped_bytes
            reason = (self._reason or "cap") if dropped else None
            removed = not self._has_name()
            self._end = StreamEnd(self.total_bytes, self.head_bytes, dropped, reason, removed=removed)
        return self._end

    def merge(self) -> bool:
        """Append the kept segments to the head's file, and remove them; whether all of that was done.

        The last segment goes first, to where it will stand in the end. So the first one, whose name tells
        where the tail starts, is there until all is done: `recovery.merge_stream` can go on from any point,
        and a reader finds every byte at any time. What is not merged is still read.
        """
        shift = self.finish().dropped_bytes
        while self._segments:
            segment = self._segments[-1]
            try:
                copy_file(segment.fd, self._head_fd, segment.length, segment.start - shift)
            except OSError:
                return False
            remove_file(self._directory_fd, segment.file)
            os.close(segment.fd)
            self._segments.pop()
        return True

    def close(self) -> None:
        """Close the files. The spool takes nothing after this."""
        self.finish()
        for segment in self._segments:
            os.close(segment.fd)
        if self._head_fd >= 0:
            os.close(self._head_fd)
        self._segments, self._head_fd = [], -1

    def _has_name(self) -> bool:
        if self._head_fd < 0:
            return False
        mine = os.fstat(self._head_fd)
        try:
            there = os.stat(self.name, dir_fd=self._directory_fd, follow_symlinks=False)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _room(self) -> tuple[int, int, int] | None:
        """(file, position in it, how much goes there) as things are, or None."""
        if self._head_fd < 0:
            return None
        self._check_space()
        if self.head_bytes < self._head_limit:
            return self._head_fd, self.head_bytes, self._head_limit - self.head_bytes
        if self._segments and (last := self._segments[-1]).length < last.limit:
            return last.fd, last.length, last.limit - last.length
        return None

    def _make_room(self) -> tuple[int, int, int] | None:
        """The same, starting a segment where that is needed. None: the next bytes cannot be kept."""
        while (room := self._room()) is None:
            if self._head_fd < 0 or not self._tail_limit:
                return None
            if self.total_bytes < self._retry_at and time.monotonic() < self._retry_time:
                return None
            self._add_segment()
        return room

    def _add_segment(self) -> None:
        """Start a segment, at the cost of the oldest ones."""
        limit = min(self._tail_limit, LOW_TAIL_BYTES) if self._low else self._tail_limit
        kept = sum(segment.length for segment in self._segments)
        # Twice as many where files are ended early, by a limit on their size.
        while self._segments and (kept >= limit or len(self._segments) >= 2 * SEGMENTS):
            kept -= self._drop_oldest()
        file = segment_name(self.name, self.head_bytes, self.total_bytes)
        try:
            fd = create_file(self._directory_fd, file)
        except OSError as exc:
            self._step_back(exc)
            return
        size = min(-(-limit // SEGMENTS), limit - kept)
        self._segments.append(_Segment(fd, file, self.total_bytes, size))

    def _drop_oldest(self) -> int:
        segment = self._segments.pop(0)
        free_file(segment.fd)
        remove_file(self._directory_fd, segment.file)
        return segment.length

    def _step_back(self, exc: OSError) -> None:
        """Something could not be written: stop the head, end a segment, give up an old one, or wait."""
        self._reason = _explain(exc)
        if self.head_bytes < self._head_limit:
            self._head_limit = self.head_bytes
            return
        if self._segments and 0 < (last := self._segments[-1]).length < last.limit:
            last.limit = last.length
            return
        if self._segments:
            self._drop_oldest()
        if not self._segments:
            self._retry_at = self.total_bytes + RETRY_BYTES
            self._retry_time = time.monotonic() + RETRY_SECONDS

    def _check_space(self) -> None:
        if self.total_bytes < self._check_at:
            return
        self._check_at = self.total_bytes + CHECK_BYTES
        try:
            disk = os.fstatvfs(self._directory_fd)
        except OSError:
            return
        self._low = disk.f_bavail * disk.f_frsize < self._floor_bytes
        if self._low:
            self._head_limit = self.head_bytes
            self._reason = "disk nearly full"

    def _count(self, taken: int) -> None:
        self.total_bytes += taken
        if self._segments:
            self._segments[-1].length += taken
        else:
            self.head_bytes += taken

    def _copy(self, source: int) -> int | None:
        """Read, then write or drop."""
        try:
            data = os.read(source, COPY_BYTES)
        except BlockingIOError:
            return None
        except OSError as exc:
            if exc.errno == errno.EIO:  # a terminal whose other side is closed
                return 0
            raise
        rest = memoryview(data)
        while rest:
            room = self._make_room()
            if room is None:
                self.total_bytes += len(rest)
                break
            fd, position, count = room
            try:
                written = os.pwrite(fd, rest[:count], position)
            except OSError as exc:
                self._step_back(exc)
                continue
            self._count(written)
            rest = rest[written:]
        return len(data)


def _explain(exc: OSError) -> str:
    """A few words for the record: they are shown to the agent."""
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "disk full"
    if exc.errno == errno.EEXIST:
        return "name taken"
    return os.strerror(exc.errno or errno.EIO).lower()
