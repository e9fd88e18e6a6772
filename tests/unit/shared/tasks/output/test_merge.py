"""Joining head and tail, broken off anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.tasks.output import files, recovery
from shared.tasks.output.stored import StoredStream, StreamFiles
from tests.unit.shared.tasks.output.feeding import NAME, Feed, counting, kept

pytestmark = pytest.mark.requirement("output.merge-anywhere")


class _KilledError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("size", [700, 1000, 5000])
@pytest.mark.parametrize("recorded", [True, False])
def test_whatever_was_done_is_gone_on_with(tmp_path: Path, size: int, recorded: bool) -> None:
    """Steps are copies of 50 bytes and removals; the process is killed before each of them in turn."""
    data = counting(size)
    steps = 0
    while True:
        place = tmp_path / str(steps)
        place.mkdir()
        with Feed(place, 1000) as feed, pytest.MonkeyPatch.context() as patch:
            feed.write(data)
            end = feed.finish()
            _kill_after(steps, patch)
            try:
                done = feed.spool.merge()
            except _KilledError:
                done = False
        directory_fd = os.open(place, os.O_RDONLY)
        if any(files.parse_segment(NAME, path.name) for path in place.iterdir()) or recorded:
            _reads_whole(StreamFiles(directory_fd, NAME, end), data)
            if not recorded:
                _reads_whole(StreamFiles(directory_fd, NAME), data)
                found = recovery.find_end(directory_fd, NAME)
                assert (found.total_bytes, found.gap) == (end.total_bytes, end.gap)
                end = found
            assert recovery.merge_stream(directory_fd, NAME, end)
            assert recovery.merge_stream(directory_fd, NAME, end)
            _reads_whole(StreamFiles(directory_fd, NAME, end), data)
        os.close(directory_fd)
        assert {path.name: path.read_bytes() for path in place.iterdir()} == {NAME: kept(data, end)}
        shutil.rmtree(place)
        if done:
            break
        steps += 1
    assert steps > 5


def _kill_after(steps: int, patch: pytest.MonkeyPatch) -> None:
    """End the process, as it were, before one of its system calls."""
    left = [steps]

    def limited(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if not left[0]:
                raise _KilledError
            left[0] -= 1
            return call(*args, **kwargs)

        return step

    def copy_little(source: int, target: int, count: int, *, offset_src: int, offset_dst: int) -> int:
        return copy(source, target, min(count, 50), offset_src=offset_src, offset_dst=offset_dst)

    copy = os.copy_file_range
    patch.setattr(os, "copy_file_range", limited(copy_little))
    patch.setattr(os, "unlink", limited(os.unlink))


def _reads_whole(stream: StreamFiles, data: bytes) -> None:
    with StoredStream(stream) as stored:
        assert stored.total_bytes == len(data)
        read, at = b"", 0
        while (chunk := stored.read(at, 300)).data:
            assert chunk.data == data[chunk.start : chunk.end]
            read, at = read + chunk.data, chunk.end
        hole = stored.find_hole(0, len(data))
    assert read == data[: hole[0]] + data[hole[1] :] if hole else read == data
