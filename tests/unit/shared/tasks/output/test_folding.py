"""What is shown of a line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tasks.output.folding import complete_end, fold, whole_end, whole_start


@pytest.mark.requirement("output.folded")
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain \xe2\x82\xac", "plain €"),
        (b"ends with both\r", "ends with both"),
        (b" 10%\r 50%\r100%", "100%"),
        (b"abcdef\rxy", "xycdef"),
        (b"Downloading 17 files\r\x1b[KDone", "Done"),
        (b"\x1b[2K\rstep 1\x1b[2K\rstep 2", "step 2"),
        (b"working\x1b[1G\x1b[0Kok", "ok"),
        (b"|\b/\b-\b\\", "\\"),
        (b"b\bbo\bol\bld\bd", "bold"),
        (b"_\bu", "u"),
        (b"12345\x1b[3Dxy", "12xy5"),
        (b"\x1b[1;31merror\x1b[0m: no", "error: no"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2\x1b\\after", "after"),
        (b"\x1b(B\x1b=\x1b7text", "text"),
        (b"\x1b]not ended", "not ended"),
        ("\u009b31mred".encode(), "red"),
        (b"tab\tstays", "tab\tstays"),
        (b"bell\x07 and \x1b", "bell␇ and ␛"),
        (b"\x00" * 4096 + b"x", "␀\u00d74096x"),
        (b"\xff\xfe ok", "\ufffd\ufffd ok"),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_a_line_is_shown_as_a_terminal_would(line: bytes, shown: str) -> None:
    assert fold(line) == shown


@given(st.binary(max_size=300))
def test_nothing_that_moves_a_cursor_is_left(line: bytes) -> None:
    shown = fold(line.replace(b"\n", b""))
    assert not any(ord(char) < 0x20 and char != "\t" for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)


_TOKENS = [
    b"a",
    "é".encode(),
    "€".encode(),
    "😀".encode(),
    b"\x1b[31m",
    b"\x1b]0;t\x07",
    b"\x1b]8;;u\x1b\\",
    b" ",
]


@given(st.lists(st.sampled_from(_TOKENS), min_size=1, max_size=12), st.data())
def test_cuts_fall_between_characters_and_sequences(tokens: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(tokens)
    edges = {len(b"".join(tokens[:count])) for count in range(len(tokens) + 1)}
    at = data.draw(st.integers(min_value=1, max_value=len(whole)))
    assert whole_end(whole, at) in edges
    assert whole_start(whole, at) in edges
    assert complete_end(whole[:at]) == max(edge for edge in edges if edge <= at)


def test_a_broken_character_is_not_waited_for() -> None:
    assert complete_end(b"ab\x82\x82\x82\x82") == 6
    assert complete_end(b"ab\xe2\x82") == 2
    assert complete_end(b"ab\x1b[3") == 2
    assert complete_end(b"ab\x1b[3m") == 6


_SIZE = 128 * 1024


@pytest.mark.requirement("output.folding-bounded")
@pytest.mark.parametrize(
    "noise",
    [
        b"x\r", b"\rx", b"\x1b[K", b"\x1b]", b"\x1b[0", b"a\b", b"\x1b[2Kx", b"\x1b[9999999Gx", b"\x1b\\",
        b"\x00",
        "\u009b".encode(), "\u009d".encode(), b"\x1bP", b"\x1b ", b"\xe2\x82", b"0;",
    ],
)  # fmt: skip
@pytest.mark.parametrize("front", [b"", b"A" * (_SIZE // 2), b"\x1b[", b"\x1b]", b"\b"])
def test_no_noise_makes_folding_slow(front: bytes, noise: bytes) -> None:
    """Against processor time: the worst of these takes a tenth of it; what is not linear takes minutes."""
    line = (front + noise * _SIZE)[:_SIZE]
    begun = time.process_time()
    fold(line)
    whole_end(line, _SIZE // 2)
    whole_start(line, _SIZE // 2)
    complete_end(line)
    assert time.process_time() - begun < 3
