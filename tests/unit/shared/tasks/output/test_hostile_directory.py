"""The directory belongs to the agent: what it may do to the files while a task writes, and later."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.tasks.output import recovery
from shared.tasks.output.retention import remove_task
from shared.tasks.output.search import search
from shared.tasks.output.stored import StreamFiles
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.output.views import page, tail_view
from tests.unit.shared.tasks.output.feeding import NAME, Feed, counting

SECRET = b"what the agent may not read\n"


def _by_nothing(path: Path, _secret: Path) -> None:
    path.unlink()


def _by_link(path: Path, secret: Path) -> None:
    path.unlink()
    path.symlink_to(secret)


def _by_hard_link(path: Path, secret: Path) -> None:
    path.unlink()
    path.hardlink_to(secret)


def _by_fifo(path: Path, _secret: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _by_directory(path: Path, _secret: Path) -> None:
    path.unlink()
    path.mkdir()


REPLACED = [_by_nothing, _by_link, _by_hard_link, _by_fifo, _by_directory]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "secret").write_bytes(SECRET)
    return tmp_path / "tasks"


@pytest.mark.requirement("output.not-followed", "output.removed")
@pytest.mark.parametrize("replace", REPLACED)
def test_what_stands_in_place_of_the_file_is_neither_written_nor_read(
    place: Path, replace: Callable[[Path, Path], None]
) -> None:
    secret = place.parent / "secret"
    with Feed(place, 1000) as feed:
        feed.write(counting(300))
        replace(place / NAME, secret)
        feed.write(counting(5000))
        # Looked at while it runs.
        assert tail_view(feed.files()).removed
        end = feed.finish()
        assert end.removed
        assert feed.spool.merge()
        assert recovery.merge_stream(feed.directory_fd, NAME, end)
        for files in (feed.files(), StreamFiles(feed.directory_fd, NAME)):
            tail, first = tail_view(files), page(files)
            assert tail.removed
            assert first.removed
            assert SECRET.decode() not in tail.text + first.text
            assert search(files, "agent").matches == ()
        assert page(feed.files()).reason == "gone from the disk"
        assert remove_task(feed.directory_fd, "task1234")
        assert list(place.iterdir()) == []
    assert secret.read_bytes() == SECRET


@pytest.mark.requirement("output.not-followed", "output.drained")
@pytest.mark.parametrize("replace", REPLACED[1:])
def test_a_name_that_is_taken_stays_as_it_is_and_the_task_goes_on(
    place: Path, replace: Callable[[Path, Path], None]
) -> None:
    secret = place.parent / "secret"
    (place / NAME).touch()
    replace(place / NAME, secret)
    with Feed(place, 1000) as feed:
        feed.write(counting(5000))
        assert feed.finish() == StreamEnd(5000, 0, 5000, "name taken", removed=True)
        assert feed.spool.merge()
    assert secret.read_bytes() == SECRET


@pytest.mark.requirement("output.not-followed")
@pytest.mark.parametrize("replace", REPLACED)
def test_segments_that_were_replaced_are_holes(place: Path, replace: Callable[[Path, Path], None]) -> None:
    secret = place.parent / "secret"
    data = counting(5000)
    with Feed(place, 1000) as feed:
        feed.write(data)
        end = feed.finish()
    segments = sorted(path for path in place.iterdir() if path.name != NAME)
    replace(segments[2], secret)
    directory_fd = os.open(place, os.O_RDONLY)
    try:
        files = StreamFiles(directory_fd, NAME, end)
        start = int(segments[2].name.rpartition("-")[2])
        shown = page(files, start)
        assert shown.text.encode() in data
        assert shown.dropped is not None
        assert shown.dropped[0] == start
        assert shown.reason == "gone from the disk"
        assert recovery.merge_stream(directory_fd, NAME, end)
        assert [path.name for path in place.iterdir()] == [NAME]
        assert SECRET not in (place / NAME).read_bytes()
    finally:
        os.close(directory_fd)
    assert secret.read_bytes() == SECRET


@pytest.mark.requirement("output.drained")
def test_a_directory_that_was_removed_costs_bytes_not_the_task(place: Path) -> None:
    with Feed(place, 1000) as feed:
        feed.write(counting(300))
        (place / NAME).unlink()
        place.rmdir()
        feed.write(counting(50_000))
        end = feed.finish()
        assert end.total_bytes == 50_300
        assert end.removed
        assert tail_view(feed.files()).removed


@pytest.mark.requirement("output.cap")
def test_a_file_that_was_moved_away_frees_the_disk_all_the_same(place: Path) -> None:
    """Dropped segments are emptied, not only unlinked."""
    hidden = place.parent / "hidden"
    hidden.mkdir()
    with Feed(place, 1000) as feed:
        for start in range(0, 20_000, 500):
            feed.write(counting(20_000)[start : start + 500])
            for path in list(place.iterdir()):
                if path.name != NAME:
                    path.rename(hidden / path.name)
            assert sum(path.stat().st_size for path in [*hidden.iterdir(), place / NAME]) <= 1000


@pytest.mark.requirement("output.removed")
def test_a_file_that_was_cut_short_is_shown_as_far_as_it_goes(place: Path) -> None:
    with Feed(place, 10_000) as feed:
        feed.write(counting(4000))
        os.truncate(place / NAME, 800)
        feed.finish()
        shown = page(feed.files())
        assert shown.text == counting(800).decode()
        assert shown.dropped == (800, 4000)
        assert shown.next_offset == shown.total_bytes == 4000
        assert tail_view(feed.files()).dropped == (800, 4000)
