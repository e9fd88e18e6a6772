"""Searching by lines."""

from __future__ import annotations

import os
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import InvalidInput, LimitExceeded, Unavailable
from shared.tasks.output import search as module
from shared.tasks.output.folding import fold
from shared.tasks.output.search import Match, search
from shared.tasks.output.stored import StreamFiles
from shared.tasks.output.stream_end import StreamEnd
from tests.unit.shared.tasks.output.feeding import NAME, Feed, counting


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield tmp_path, fd
    os.close(fd)


def _stream(place: tuple[Path, int], data: bytes) -> StreamFiles:
    (place[0] / NAME).write_bytes(data)
    return StreamFiles(place[1], NAME, StreamEnd(len(data), len(data)))


@pytest.mark.requirement("output.search")
def test_lines_are_found_as_they_are_shown(place: tuple[Path, int]) -> None:
    files = _stream(place, b"one\n\x1b[31mERR\x1b[0mOR: a\r\n 10%\rERROR: b\nno\nERROR: c")
    found = search(files, "^ERROR: .$")
    assert found.matches == (
        Match(4, 2, "ERROR: a"),
        Match(23, 3, "ERROR: b"),
        Match(40, 5, "ERROR: c"),
    )
    assert (found.more, found.next_offset, found.searched_to) == (0, None, found.total_bytes)
    assert search(files, "^$").matches == ()
    assert [match.line_number for match in search(files, "ERROR", offset=-9).matches] == [5]


@pytest.mark.requirement("output.search")
@pytest.mark.parametrize("alphabet", [b"ab\n", b"ab\n\r\x1b[mK\xe2\x82\xac\x00"])
def test_any_bytes_give_what_a_loop_over_the_lines_gives(place: tuple[Path, int], alphabet: bytes) -> None:
    data = bytes(random.Random(5).choices(alphabet, k=3_000_000))
    offset, expected = 0, []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        if re.search("^[ab]b+a?b$", fold(line)):
            expected.append((offset, number))
        offset += len(line) + 1
    assert len(expected) > 60
    files = _stream(place, data)
    at: int | None = 0
    found: list[tuple[int, int | None]] = []
    while at is not None and len(found) <= 60:
        result = search(files, "^[ab]b+a?b$", offset=at, max_matches=30)
        found += [(match.offset, match.line_number) for match in result.matches]
        at = result.next_offset
    assert len(found) > 60
    assert found == expected[: len(found)]


@pytest.mark.requirement("output.search")
def test_what_does_not_fit_is_counted_and_gone_on_with(place: tuple[Path, int]) -> None:
    files = _stream(place, b"hit\n" * 100)
    found = search(files, "hit", max_matches=7)
    assert (len(found.matches), found.more, found.next_offset) == (7, 93, 28)
    found = search(files, "hit", offset=28, max_bytes=300)
    assert 1 < len(found.matches) < 10
    assert len(found.matches) + found.more == 93
    assert found.matches[0].line_number == 8
    assert len(search(files, "hit", max_bytes=1).matches) == 1


@pytest.mark.requirement("output.search")
def test_a_long_line_is_cut_around_the_match(place: tuple[Path, int]) -> None:
    files = _stream(place, b"x" * 20_000 + b"NEEDLE" + b"y" * 20_000 + b"\nnext")
    (match,) = search(files, "NEEDLE").matches
    assert match.line_bytes == 40_006
    assert "NEEDLE" in match.text
    assert match.text.startswith("…x")
    assert match.text.endswith("y…")
    assert len(match.text) < 500


@pytest.mark.requirement("output.search", "output.gap")
def test_behind_a_gap_lines_have_no_number(tmp_path: Path) -> None:
    data = counting(20_000)
    with Feed(tmp_path, 2000) as feed:
        feed.write(data)
        end = feed.finish()
        before, behind = search(feed.files(), "^0000100$|^0002490$").matches
        assert before == Match(800, 101, "0000100")
        assert behind == Match(2490 * 8, None, "0002490")
        found = search(feed.files(), "0001000")
        assert found.matches == ()
        assert found.dropped == (end.head_bytes, end.tail_start)
        assert found.next_offset is None


@pytest.mark.requirement("output.search-pattern")
def test_a_wrong_pattern_is_said_with_its_place(place: tuple[Path, int]) -> None:
    files = _stream(place, b"text")
    with pytest.raises(InvalidInput, match="at character 3: unterminated character set"):
        search(files, "ab[")
    with pytest.raises(InvalidInput, match="longer than 1000 characters"):
        search(files, "a" * 1001)
    with pytest.raises(InvalidInput, match="the stream has 4 bytes"):
        search(files, "a", offset=5)


@pytest.mark.requirement("output.search-bounded")
def test_a_pattern_that_runs_away_is_stopped_and_named(place: tuple[Path, int]) -> None:
    files = _stream(place, b"fine\n" * 10 + b"a" * 50 + b"!\nnever reached\n")
    found = search(files, "(a+)+$|fine", seconds=0.5)
    assert len(found.matches) == 10
    assert found.slow
    assert found.searched_to == found.next_offset == 50


@pytest.mark.requirement("output.search-bounded")
def test_a_search_that_does_not_hear_its_alarm_is_killed(
    place: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = module._PROGRAM.replace("main()", "import signal; signal.setitimer = lambda *_: None; main()")
    monkeypatch.setattr(module, "_PROGRAM", deaf)
    found = search(_stream(place, b"a" * 50 + b"!"), "(a+)+$", seconds=0.2)
    assert found.slow
    assert found.next_offset == 0


@pytest.mark.requirement("output.search-bounded")
def test_a_search_that_cannot_run_says_so(place: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROGRAM", "raise SystemExit")
    with pytest.raises(Unavailable):
        search(_stream(place, b"text"), "t")
    monkeypatch.setattr(module, "_PLACES", threading.BoundedSemaphore(1))
    with module._PLACES, pytest.raises(LimitExceeded):
        search(_stream(place, b"text"), "t", seconds=0.01)


@pytest.mark.requirement("output.search-bounded", "output.memory")
def test_a_huge_line_and_a_huge_file_are_searched_as_far_as_time_goes(place: tuple[Path, int]) -> None:
    for line in (b"x" * 65_536, b"12%\r" * 16_384, b"123456\n" * 10_000):
        path = place[0] / NAME
        with path.open("wb") as file:
            for _ in range(100_000_000 // len(line)):
                file.write(line)
        found = search(StreamFiles(place[1], NAME), "never|nowhere", seconds=1)
        assert 0 < found.searched_to <= found.total_bytes
        assert found.next_offset in (None, found.searched_to)
        assert not found.slow
        path.unlink()


def test_the_search_holds_no_descriptor_and_leaves_no_process(place: tuple[Path, int]) -> None:
    files = _stream(place, b"text")
    search(files, "t")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    for pattern in ("t", "(", "x"):
        try:
            search(files, pattern)
        except InvalidInput:
            continue
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    ).stdout
    assert "searching" not in children
