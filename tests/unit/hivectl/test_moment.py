"""Moments on the command line."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click
import pytest

from services.hivectl.moment import MOMENT


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("90m", 5_400), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_so_long_ago(text: str, seconds: int) -> None:
    before = int(time.time())
    assert before - seconds <= MOMENT.convert(text, None, None) <= int(time.time()) - seconds


def test_a_date_and_a_time_are_local_unless_they_say_a_zone() -> None:
    assert MOMENT.convert("2026-11-30T14:00:00+00:00", None, None) == 1_796_047_200
    local = datetime(2026, 11, 30).astimezone()
    assert MOMENT.convert("2026-11-30", None, None) == int(local.astimezone(UTC).timestamp())


@pytest.mark.parametrize("text", ["", "yesterday", "12", "-3h", "2026-13-01", "1y", "9" * 400 + "d"])
def test_anything_else_says_what_is_right(text: str) -> None:
    with pytest.raises(click.BadParameter, match="say how long ago"):
        MOMENT.convert(text, None, None)


def test_what_is_before_all_messages_is_the_beginning() -> None:
    assert MOMENT.convert("999999999w", None, None) == MOMENT.convert("0001-01-02", None, None) == 0
