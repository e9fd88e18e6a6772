"""Keeping a stream within its cap, through real pipes."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.tasks.output.stream_end import Gap, StreamEnd
from tests.unit.shared.tasks.output.feeding import NAME, Feed, counting, kept


@pytest.mark.requirement("output.as-written")
@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_up_to_its_cap_a_stream_is_kept_as_written(tmp_path: Path, size: int) -> None:
    with Feed(tmp_path, 100) as feed:
        feed.write(counting(size))
        assert feed.finish() == StreamEnd(size, min(size, 50))
        assert feed.spool.merge()
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {NAME: counting(size)}


@pytest.mark.requirement("output.cap", "output.gap")
@settings(max_examples=60, deadline=None)
@given(
    cap=st.integers(min_value=0, max_value=3000),
    chunks=st.lists(st.integers(min_value=1, max_value=2500), max_size=30),
    by_splice=st.booleans(),
)
def test_any_chunks_leave_head_and_tail_within_the_cap(
    tmp_path_factory: pytest.TempPathFactory, cap: int, chunks: list[int], by_splice: bool
) -> None:
    data = counting(sum(chunks))
    with Feed(tmp_path_factory.mktemp("any"), cap) as feed:
        feed.cap = cap
        feed.spool._copying = not by_splice
        at = 0
        for chunk in chunks:
            feed.write(data[at : at + chunk])
            at += chunk
        end = feed.finish()
        assert feed.spool.merge()
        content = (feed.directory / NAME).read_bytes()
        assert [path.name for path in feed.directory.iterdir()] == [NAME]
    assert content == kept(data, end)
    assert end.total_bytes == len(data)
    assert end.reason == ("cap" if end.gap else None)
    assert bool(end.gap) == (len(data) > cap)
    assert len(content) <= cap
    if end.gap:
        # No more is missing than a segment, or what a pipe held, beyond the cap.
        assert len(content) >= cap - cap // 16 - 1
        assert end.gap == Gap((cap + 1) // 2, len(data) - len(content))


@pytest.mark.requirement("output.drained", "output.gap")
def test_a_limit_on_file_sizes_costs_bytes_not_the_task(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = counting(60_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with Feed(tmp_path, 64_000) as feed:
            feed.write(data)
            end = feed.finish()
            feed.spool.merge()
            held = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert end.total_bytes == len(data)
    assert end.head_bytes == 1000
    assert end.gap
    assert end.reason == "file too large"
    # The segments cannot be joined under the limit; they are all there.
    assert sum(held.values()) == 1000 + end.total_bytes - end.tail_start > 10_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("no mount here")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.requirement("output.drained", "output.space-back")
def test_a_full_disk_drains_the_pipe_and_the_tail_comes_back(small_disk: Path) -> None:
    with Feed(small_disk, 8 * 1024 * 1024) as feed:
        data = counting(3 * 1024 * 1024)
        feed.write(data)
        full = feed.spool.dropped_bytes
        assert 0 < full < len(data)
        # What others wrote goes, and there is room.
        subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
        more = counting(3 * 1024 * 1024)
        feed.write(more)
        end = feed.finish()
        assert end.reason == "disk full"
        assert feed.spool.merge()
        assert (small_disk / NAME).read_bytes() == kept(data + more, end)
        assert end.total_bytes - end.tail_start >= 2 * 1024 * 1024


@pytest.mark.requirement("output.floor")
def test_below_the_floor_only_a_small_tail_is_kept(tmp_path: Path) -> None:
    data = counting(1024 * 1024)
    with Feed(tmp_path, 8 * 1024 * 1024, floor_bytes=1 << 60) as feed:
        feed.write(data)
        end = feed.finish()
        assert feed.spool.merge()
        assert (tmp_path / NAME).read_bytes() == kept(data, end)
    assert end.reason == "disk nearly full"
    assert end.head_bytes == 0
    assert 128 * 1024 < end.total_bytes - end.tail_start <= 256 * 1024


def test_a_terminal_serves_as_a_source_too(tmp_path: Path) -> None:
    with Feed(tmp_path, 1000) as feed:
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        os.write(theirs, b"hello\n")
        assert feed.spool.pump(ours) == len(b"hello\r\n")
        assert feed.spool.pump(ours) is None
        os.close(theirs)
        assert feed.spool.pump(ours) == 0
        os.close(ours)
        feed.finish()
        assert (tmp_path / NAME).read_bytes() == b"hello\r\n"


def test_the_end_of_a_stream_survives_its_record() -> None:
    end = StreamEnd(1000, 10, 900, "disk full", removed=True)
    assert StreamEnd.from_record(end.to_record()) == end
    nonsense = StreamEnd.from_record({"total_bytes": 5, "head_bytes": 9, "dropped_bytes": 70})
    assert nonsense == StreamEnd(5, 5)


@pytest.mark.requirement("output.supervisor-light")
def test_a_spool_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import os; before = set(sys.modules)\n"
        "import shared.tasks.output.spool\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    root = Path(__file__).resolve().parents[5]
    imported = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(root)], capture_output=True, text=True, check=True
    ).stdout.split()
    foreign = {name for name in imported if not name.startswith("shared")}
    assert foreign <= {"__future__", "errno", "time"}
