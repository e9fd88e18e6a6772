"""A spool and the pipe that feeds it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.tasks.output.spool import Spool
from shared.tasks.output.stored import StreamFiles
from shared.tasks.output.stream_end import StreamEnd

NAME = "task1234.out"


class Feed:
    """Writes to a spool through a real pipe, in one thread."""

    def __init__(self, directory: Path, cap_bytes: int, *, name: str = NAME, floor_bytes: int = 0) -> None:
        self.directory = directory
        self.directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self.spool = Spool(self.directory_fd, name, cap_bytes, floor_bytes=floor_bytes)
        self.end: StreamEnd | None = None
        self._source, self._sink = os.pipe()
        os.set_blocking(self._source, False)
        os.set_blocking(self._sink, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spool.close()
        for fd in (self.directory_fd, self._source, self._sink):
            if fd >= 0:
                os.close(fd)

    def write(self, data: bytes) -> None:
        """Have the spool take all of `data`, in one write each time the pipe is empty."""
        while data:
            data = data[os.write(self._sink, data) :]
            while self.spool.pump(self._source) is not None:
                assert self.cap < 0 or self.on_disk() <= self.cap

    cap = -1

    def on_disk(self) -> int:
        """Bytes of all files in the directory."""
        return sum(path.stat().st_size for path in self.directory.iterdir() if path.is_file())

    def finish(self) -> StreamEnd:
        """Close the writing side, and let the spool see it."""
        os.close(self._sink)
        self._sink = -1
        while self.spool.pump(self._source) != 0:
            pass
        self.end = self.spool.finish()
        return self.end

    def files(self) -> StreamFiles:
        """The stream as a daemon sees it."""
        return StreamFiles(self.directory_fd, self.spool.name, self.end)


def kept(data: bytes, end: StreamEnd) -> bytes:
    """What of `data` a finished file holds."""
    return data[: end.head_bytes] + data[end.tail_start :]


def counting(size: int) -> bytes:
    """Bytes of which any 8 in a row tell where they are."""
    return b"".join(b"%07d\n" % number for number in range(size // 8 + 1))[:size]
