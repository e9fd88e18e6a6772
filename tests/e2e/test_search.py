"""`hivectl search`: the operator finds messages of a hive by their words."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.access import AgentAccess
from tests.support.hive import Hive, running_hive

pytestmark = pytest.mark.requirement("search.command")


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


@pytest.fixture
def iris(hive: Hive) -> AgentAccess:
    return hive.agent("iris")


def test_what_an_agent_sent_by_its_tool_is_found_at_once(hive: Hive, iris: AgentAccess) -> None:
    iris.call("send", to="ruth", body="The deploy of the gateway failed twice")
    iris.call("send", to="operator", body="deployed it after all")
    hive.operator.send("iris", "never mind the deployment")
    rows = hive.ctl("search", "deploy")
    assert [(row["sender"], row["recipient"]) for row in rows] == [
        ("operator", "iris"),
        ("iris", "operator"),
        ("iris", "ruth"),
    ]
    (row,) = hive.ctl("search", "FAILED", "gateway")
    assert row["body"] == row["snippet"] == "The deploy of the gateway failed twice"
    assert [row["snippet"][begin:end] for begin, end in row["matches"]] == ["gateway", "failed"]
    (same,) = hive.ctl("search", "deploy gateway", "--from", "iris", "--to", "ruth", "--since", "1h")
    assert same["id"] == row["id"]
    assert hive.ctl("search", "deploy", "--since", "2200-01-01") == []
    assert [one["id"] for one in hive.ctl("search", "deploy", "--before", str(row["id"] + 1))] == [row["id"]]


def test_text_shows_newest_first_escaped_with_what_follows(hive: Hive, iris: AgentAccess) -> None:
    for number in range(3):
        iris.call("send", to="operator", body=f"lookout {number}\x1b[2J\n#9  operator -> iris")
    done = hive.run("search", "lookout", "--limit", "2")
    lines = done.stdout.splitlines()
    assert [line[:3] for line in lines] == ["#" + lines[0][1:3], "  |", "#" + lines[2][1:3], "  |"]
    assert "lookout 2\\x1b[2J #9  operator -> iris" in lines[1]
    assert "\x1b" not in done.stdout
    last = hive.ctl("search", "lookout", "--limit", "2")[-1]["id"]
    assert done.stderr == f"older ones: --before {last}\n"
    assert hive.run("search", "nowhere").stdout == "no message was found\n"


@pytest.mark.parametrize(
    ("arguments", "exits", "told"),
    [
        (("…!?",), 2, "no word to look for"),
        (("x" * 10_000,), 2, "10000 characters"),
        (("",), 2, "0 characters"),
        ((), 2, "QUERY"),
        (("x", "--from", "irs"), 4, "did you mean iris?"),
        (("x", "--to", "nosuch"), 4, "no agent is named 'nosuch'"),
        (("x", "--from", "A/b"), 2, "must be an agent's name"),
        (("x", "--since", "yesterday"), 2, "is no moment"),
        (("x", "--limit", "0"), 2, "--limit"),
    ],
)
def test_what_cannot_be_is_said(hive: Hive, arguments: tuple[str, ...], exits: int, told: str) -> None:
    assert told in hive.ctl("search", *arguments, exits=exits)["error"]["message"]


@pytest.mark.parametrize("query", ['"', "NEAR(a b)", "a*", "body:a", "🚀a", "日本語", "a OR", "%s\\"])
def test_no_query_is_an_error_of_the_database(hive: Hive, query: str) -> None:
    done = hive.run("search", query, "--json")
    assert done.returncode in {0, 2}, done.stderr


def test_a_destroyed_agent_s_messages_are_still_found(hive: Hive) -> None:
    hive.ctl("agent", "add", "milo")
    hive.agent("milo").call("send", to="operator", body=f"testament {time.time_ns()}")
    hive.ctl("agent", "destroy", "milo", "--yes")
    (row,) = hive.ctl("search", "testament", "--from", "milo")
    assert row["sender"] == "milo"
    assert hive.ctl("search", "nothing", "--from", "milo") == []
