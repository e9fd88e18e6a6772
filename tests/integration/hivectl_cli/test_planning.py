"""What agents plan ahead as the operator sees it, by `hivectl`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.access import AgentAccess
from tests.support.hive import Hive, running_hive


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


@pytest.fixture
def iris(hive: Hive) -> AgentAccess:
    agent = hive.agent("iris")
    agent.drain()
    return agent


def test_reminders_are_shown_of_all_agents_and_of_one(hive: Hive, iris: AgentAccess) -> None:
    assert hive.run("reminders").stdout == "no reminder is pending\n"
    later = iris.json("POST", "/reminders", {"body": "later\x1b[2J\nsecond line", "delay_seconds": 500})
    sooner = hive.agent("ruth").json("POST", "/reminders", {"body": "sooner", "delay_seconds": 400})
    assert [row["id"] for row in hive.ctl("reminders")] == [sooner["id"], later["id"]]
    (row,) = hive.ctl("reminders", "iris")
    assert (row["agent"], row["due_at"], row["held"]) == ("iris", later["due_at"], False)
    shown = hive.run("reminders", "iris").stdout
    assert shown.splitlines()[0].split() == ["ID", "AGENT", "DUE", "TEXT"]
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2
    assert hive.ctl("reminders", "milo", exits=4)["error"]["code"] == "not_found"
    assert "there are more" in hive.run("reminders", "--limit", "1").stderr
