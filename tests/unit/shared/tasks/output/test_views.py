"""Pages and tails."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import InvalidInput
from shared.tasks.output.folding import fold
from shared.tasks.output.stored import StreamFiles
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.output.views import MAX_PAGE_BYTES, page, tail_view
from tests.unit.shared.tasks.output.feeding import NAME, Feed, counting


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    directory = tmp_path_factory.mktemp("views")
    fd = os.open(directory, os.O_RDONLY)
    yield directory, fd
    os.close(fd)


def _stream(place: tuple[Path, int], data: bytes, *, running: bool = False) -> StreamFiles:
    (place[0] / NAME).write_bytes(data)
    return StreamFiles(place[1], NAME, None if running else StreamEnd(len(data), len(data)))


def _folded(data: bytes) -> str:
    return "\n".join(fold(line) for line in data.split(b"\n"))


_PIECES = ["a", "word ", "é", "€", "😀", '"', "\\", "\t", "\n", "\x1b[31m", "\x1b]0;t\x07", "\x1b[0m"]
_texts = st.lists(st.sampled_from(_PIECES), max_size=400).map("".join)


@pytest.mark.requirement("output.pages")
@settings(max_examples=150, deadline=None)
@given(text=_texts, max_bytes=st.integers(min_value=64, max_value=500), running=st.booleans())
def test_successive_pages_join_to_the_whole(
    place: tuple[Path, int], text: str, max_bytes: int, running: bool
) -> None:
    files = _stream(place, text.encode(), running=running)
    at, texts = 0, []
    while at < len(text.encode()):
        shown = page(files, at, max_bytes)
        assert shown.offset == at
        assert len(json.dumps(shown.text, ensure_ascii=False).encode()) - 2 <= max_bytes
        assert shown.next_offset > at
        texts.append(shown.text)
        at = shown.next_offset
    assert "".join(texts) == _folded(text.encode())


@pytest.mark.requirement("output.pages")
@settings(max_examples=100, deadline=None)
@given(lines=st.lists(st.binary(max_size=15), max_size=40))
def test_pages_of_whole_lines_join_to_the_folded_whole(place: tuple[Path, int], lines: list[bytes]) -> None:
    """Of any bytes, carriage returns included, as long as a line fits a page."""
    data = b"\n".join(line.replace(b"\n", b"") for line in lines)
    files = _stream(place, data)
    at, texts = 0, []
    while at < len(data):
        shown = page(files, at, 100)
        # An escape sequence before `at` cannot reach over it: it would have to hold the line's end.
        assert shown.offset == at
        texts.append(shown.text)
        at = shown.next_offset
    assert "".join(texts) == _folded(data)


@pytest.mark.requirement("output.pages")
@given(text=_texts, offset=st.integers(min_value=-500, max_value=500))
@settings(deadline=None)
def test_a_page_from_anywhere_begins_with_a_whole_character(
    place: tuple[Path, int], text: str, offset: int
) -> None:
    data = text.encode()
    files = _stream(place, data)
    if offset > len(data):
        with pytest.raises(InvalidInput, match=f"the stream has {len(data)} bytes"):
            page(files, offset)
        return
    shown = page(files, offset)
    assert "\ufffd" not in shown.text
    assert _folded(data).endswith(shown.text)


def test_a_character_that_is_still_being_written_is_left_for_the_next_page(place: tuple[Path, int]) -> None:
    shown = page(_stream(place, b"ab\xe2\x82", running=True))
    assert (shown.text, shown.next_offset, shown.total_bytes) == ("ab", 2, 4)
    shown = page(_stream(place, b"ab\xe2\x82\xac", running=True), shown.next_offset)
    assert shown.text == "€"
    assert page(_stream(place, b"ab\xe2\x82")).text == "ab\ufffd"
    assert tail_view(_stream(place, b"ab\x1b[3", running=True)).text == "ab"
    assert tail_view(_stream(place, b"ab\xe2\x82", running=True)).text == "ab"


@pytest.mark.requirement("output.gap", "output.pages")
@pytest.mark.parametrize("merged", [False, True])
def test_a_page_says_what_was_dropped_and_goes_on_behind_it(tmp_path: Path, merged: bool) -> None:
    data = counting(20_000)
    with Feed(tmp_path, 2000) as feed:
        feed.write(data)
        end = feed.finish()
        if merged:
            assert feed.spool.merge()
        gap = end.gap
        assert gap
        first = page(feed.files(), 900)
        assert first.text.encode() == data[900 : gap.at]
        assert first.dropped == (gap.at, gap.at + gap.dropped_bytes)
        assert first.reason == "cap"
        behind = page(feed.files(), first.next_offset)
        assert behind.text.encode() == data[end.tail_start :]
        assert behind.dropped is None
        within = page(feed.files(), gap.at + 100)
        assert within.text == behind.text
        assert within.dropped == (gap.at + 100, end.tail_start)
        tail = tail_view(feed.files(), 4096)
        assert tail.text == behind.text
        assert tail.dropped == (gap.at, end.tail_start)
        assert tail_view(feed.files(), 80).dropped == tail.dropped


@pytest.mark.requirement("output.tail")
@settings(max_examples=100, deadline=None)
@given(text=_texts, max_bytes=st.integers(min_value=20, max_value=300))
def test_a_tail_is_the_end_within_its_bytes(place: tuple[Path, int], text: str, max_bytes: int) -> None:
    whole = _folded(text.encode())
    shown = tail_view(_stream(place, text.encode()), max_bytes)
    assert whole.endswith(shown.text)
    assert len(json.dumps(shown.text, ensure_ascii=False).encode()) - 2 <= max_bytes
    if len(json.dumps(whole, ensure_ascii=False).encode()) - 2 <= max_bytes:
        assert shown.text == whole


@pytest.mark.requirement("output.tail", "output.memory")
def test_an_endless_line_of_progress_is_its_last_state(place: tuple[Path, int]) -> None:
    path = place[0] / NAME
    with path.open("wb") as file:
        for start in range(100):
            file.write(b"".join(b"\rdone: %9d" % (start * 65536 + step) for step in range(65536)))
    size = path.stat().st_size
    assert size >= 100_000_000
    files = StreamFiles(place[1], NAME)
    tracemalloc.start()
    try:
        assert tail_view(files).text == f"done: {100 * 65536 - 1:9d}"
        assert page(files).text.startswith("done: ")
        assert page(files, -1000).text == f"done: {100 * 65536 - 1:9d}"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        path.unlink()
    assert peak < 8 * 1024 * 1024


@pytest.mark.requirement("output.pages-bounded", "output.memory")
def test_noise_is_bounded_as_json(place: tuple[Path, int]) -> None:
    noise = random.Random(7)
    tracemalloc.start()
    try:
        for data in (
            noise.randbytes(300_000),
            bytes(300_000),
            b'"' * 300_000,
            b"\n" * 300_000,
            b"\x1b]" * 150_000,
        ):
            files = _stream(place, data)
            at = rounds = 0
            while at < len(data):
                shown = page(files, at, 1_000_000)
                assert len(json.dumps(shown.text, ensure_ascii=False).encode()) - 2 <= MAX_PAGE_BYTES
                assert shown.next_offset > at
                at = shown.next_offset
                rounds += 1
            assert rounds < 60
            assert len(json.dumps(tail_view(files).text, ensure_ascii=False).encode()) - 2 <= 4096
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * 1024 * 1024
