"""News between brokers: topics and ids as text, and who hears of them."""

from __future__ import annotations

import pytest

from services.broker.store.news import EVERYTHING, Bulletin, Item, Topic, read_items, write_items


def test_news_comes_out_as_it_went_in_without_repeats() -> None:
    items = [Item(Topic.GRANTS, 7), Item(Topic.JOBS), Item(Topic.GRANTS, 7), Item(Topic.CUT, 2**63 - 1)]
    text = write_items(items, max_bytes=100)
    assert text.isascii()
    assert read_items(text) == [items[0], items[1], items[3]]


def test_what_is_too_long_or_not_understood_means_everything() -> None:
    many = [Item(Topic.GRANTS, number) for number in range(1_000)]
    assert read_items(write_items(many, max_bytes=100)) == [EVERYTHING]
    for text in ("grants:7 weather:1", "grants", "grants:-1", "*"):
        assert read_items(text) == [EVERYTHING]
    assert read_items("") == []


@pytest.mark.parametrize(
    ("items", "heard"),
    [
        ([Item(Topic.GRANTS, 7)], [("grants", 7)]),
        ([Item(Topic.JOBS), Item(Topic.STREAMS)], [("jobs", None)]),
        ([EVERYTHING], [("grants", None), ("jobs", None)]),
    ],
)
def test_who_listens_to_a_topic_hears_of_it_and_of_everything(
    items: list[Item], heard: list[tuple[str, int | None]]
) -> None:
    bulletin = Bulletin()
    found: list[tuple[str, int | None]] = []
    bulletin.subscribe(Topic.GRANTS, lambda subject: found.append(("grants", subject)))
    bulletin.subscribe(Topic.JOBS, lambda subject: found.append(("jobs", subject)))
    bulletin.tell(items)
    assert found == heard
