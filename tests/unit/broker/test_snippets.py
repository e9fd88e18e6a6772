"""What of a body is shown where it was found."""

from __future__ import annotations

import pytest

from services.broker.service.snippets import MAX_SNIPPET_CHARS, cut_snippet
from services.broker.store.search.words import fold, is_unspaced, split_words


def hits(body: str, *words: str) -> list[str]:
    text, matches = cut_snippet(body, words)
    return [text[begin:end] for begin, end in matches]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("see services/broker/store.py:12", ["see", "services", "broker", "store", "py", "12"]),
        ('"a" NEAR(b* -c) NOT:d\x00e', ["a", "NEAR", "b", "c", "NOT", "d", "e"]),
        ("snake_case don't", ["snake", "case", "don", "t"]),
        ("ÜBUNG Ξένος cafe\u0301s", ["ÜBUNG", "Ξένος", "cafe\u0301s"]),
        ("🚀 …!? ' \" * --", []),
        ("部署完成,重启", ["部署完成", "重启"]),
    ],
)
def test_words_are_letters_and_digits_and_all_else_separates(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_case_and_accents_do_not_count() -> None:
    assert fold("ÜBUNG") == fold("ubung") == "ubung"
    assert fold("cafe\u0301s") == fold("cafés") == "cafes"
    assert len(fold("x" * 9_000)) == 500
    assert len(fold("각" * 600).encode()) < 2_046
    assert (is_unspaced("完成"), is_unspaced("완성"), is_unspaced("done")) == (True, False, False)


def test_hits_are_whole_words_that_begin_so_and_parts_of_unspaced_ones() -> None:
    assert hits("Deployed? undeployed, DEPLOY", "deploy") == ["Deployed", "DEPLOY"]
    assert hits("昨天部署完成了 done", "完成", "don") == ["完成", "done"]


def test_a_long_body_is_cut_around_its_first_hit_and_stays_on_one_line() -> None:
    body = "filler words\n" * 500 + "the\tneedle, and another needle " + "more " * 500
    text, matches = cut_snippet(body, ["needle"])
    assert (text[0], text[-1]) == ("…", "…")
    assert len(text) == MAX_SNIPPET_CHARS + 2
    assert [text[begin:end] for begin, end in matches] == ["needle", "needle"]
    assert not set("\n\t") & set(text)


def test_a_short_body_is_shown_whole() -> None:
    assert cut_snippet("a needle", ["needle"]) == ("a needle", [(2, 8)])
    # The index and this may differ on a character that nobody writes: then nothing is marked.
    assert cut_snippet("a needle", ["other"]) == ("a needle", [])


def test_one_endless_word_is_cut_too() -> None:
    text, matches = cut_snippet("x" * 60_000, ["xx"])
    assert len(text) == MAX_SNIPPET_CHARS + 1
    assert matches == [(0, MAX_SNIPPET_CHARS)]
