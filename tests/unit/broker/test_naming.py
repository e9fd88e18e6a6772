"""How an unknown name is answered, whatever it holds."""

from __future__ import annotations

import pytest

from services.broker.service.naming import unknown_agent


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("irsi", ["iris", "ruth"], "did you mean iris?"),
        ("zzz", ["iris", "ruth"], "there are: iris, ruth"),
        ("zzz", [], "there is no other"),
        ("zzz", [f"a{number:02}" for number in range(25)], "and 5 more"),
    ],
)
def test_near_names_come_first_then_those_that_exist(name: str, known: list[str], words: str) -> None:
    assert words in unknown_agent(name, known).message


@pytest.mark.parametrize("name", ["x" * 10_000, "a\nb", "\x1b[31m", "\u202eevil", "\ud800"])
def test_a_hostile_name_is_shown_short_and_harmless(name: str) -> None:
    message = unknown_agent(name, ["ruth"]).message
    assert len(message) < 150
    assert message.isprintable()
    message.encode()
