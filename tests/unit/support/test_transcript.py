"""How a transcript is compared with what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import Command, matches, read_commands


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("ready in … s", "ready in 1.2 s\n", True),
        ("ready in … s", "ready in 1.2 s\nand more", False),
        ("first\n…\nlast", "first\nlast", True),
        ("first\n…\nlast", "first\na\nb\nlast", True),
        ("first\n…\nlast", "first\na\nb", False),
        ("a (b)", "a b", False),
        ("", "anything", False),
    ],
)
def test_ellipsis_stands_for_what_differs(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_commands_are_read_with_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```console\n$ one \\\n    two\nout\n\nput\n$ three\n```\n```sh\n$ not this\n```\n")

    assert read_commands(page) == [Command("one two", "out\n\nput"), Command("three", "")]
