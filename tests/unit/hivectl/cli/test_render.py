"""Foreign text on a terminal."""

from __future__ import annotations

import pytest

from services.hivectl.render import format_time, print_fields, print_table, safe, safe_block


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本 👩‍🚀", "plain äöü 日本 👩‍🚀"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("a\nb\rc\td", "a\\x0ab\\x0dc\\x09d"),
        ("abc\u202etxt.exe\u2069", "abc\\u202etxt.exe\\u2069"),
        ("a\u2028b\u200bc\ufeff", "a\\u2028b\\u200bc\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_a_terminal_would_act_on_is_written_out(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_no_line_of_a_body_can_pose_as_a_heading() -> None:
    body = "hello\r\n#9  operator -> iris\n\x1b[2J\tend"
    assert safe_block(body, indent="  | ").split("\n") == [
        "  | hello",
        "  | #9  operator -> iris",
        "  | \\x1b[2J    end",
    ]


def test_table_neither_folds_in_a_pipe_nor_reads_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "B"), [("[bold]x[/bold]", "y" * 300), ("z", "\x1b[31m")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "[bold]x[/bold]  " + "y" * 300
    assert lines[2].endswith("\\x1b[31m")
    assert len(lines) == 3


def test_fields_are_aligned_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("a", "1"), ("long", "x\ny"), ("none", "")])
    assert capsys.readouterr().out.splitlines() == ["a     1", "long  x\\x0ay", "none"]


def test_impossible_times_are_shown_as_numbers() -> None:
    assert format_time(None) == "-"
    assert format_time(2**62) == str(2**62)
