"""What the operator sees of messages that were put aside or refused, and can do about it, by `hivectl`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from services.broker.service.parking import MAX_FAILED_TURNS
from tests.support.access import AgentAccess
from tests.support.hive import Hive, running_hive
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


@pytest.fixture
def iris(hive: Hive) -> AgentAccess:
    agent = hive.agent("iris")
    agent.drain()
    return agent


def park(agent: AgentAccess, *, after: int = MAX_FAILED_TURNS) -> None:
    """Have so many turns take what is pending, and fail."""
    for number in range(after):
        agent.json("POST", "/inbox/recv", {"turn": f"t{number}"})
        agent.json("POST", "/inbox/release", {"turn": f"t{number}", "failed": True})


def test_a_parked_message_is_shown_and_released(hive: Hive, iris: AgentAccess) -> None:
    number = hive.operator.send("iris", "poison\x1b[2J")
    park(iris)
    (row,) = hive.ctl("inbox", "parked")
    assert (row["id"], row["recipient"], row["state"]) == (number, "iris", "parked")
    assert row["failed_turns"] == MAX_FAILED_TURNS
    shown = hive.run("inbox", "parked").stdout
    assert f"#{number}  operator -> iris" in shown
    assert "parked  5 failed turns" in shown
    assert "poison\\x1b[2J" in shown
    assert "parked" in hive.run("agent", "inbox", "iris").stdout
    (finding,) = [check for check in hive.ctl("doctor")["checks"] if check["name"] == "messages.parked"]
    assert finding["severity"] == "warning"
    assert finding["detail"].startswith("1 message put aside")

    assert hive.ctl("inbox", "release", str(number))["state"] == "pending"
    assert hive.run("inbox", "parked").stdout == "no message is parked\n"
    assert [one["id"] for one in iris.json("POST", "/inbox/recv", {})["messages"]] == [number]
    (entry,) = [row for row in hive.ctl("audit", "--agent", "iris") if row["code"] == "parked"]
    assert (entry["sender"], entry["recipient"]) == ("operator", "iris")
    assert f"message #{number} was put aside" in entry["reason"]


def test_what_is_not_parked_is_not_released(hive: Hive, iris: AgentAccess) -> None:
    number = hive.operator.send("iris", "harmless")
    assert "it is pending" in hive.ctl("inbox", "release", str(number), exits=5)["error"]["message"]
    hive.ctl("inbox", "release", "999999", exits=4)


def test_a_parked_message_is_given_up_by_its_id(hive: Hive, iris: AgentAccess) -> None:
    number = hive.operator.send("iris", "poison")
    park(iris)
    assert hive.ctl("inbox", "ack", "--all", "--agent", "iris")["acked"] == 0
    assert hive.ctl("inbox", "ack", "--id", str(number), "--agent", "iris")["acked_ids"] == [number]
    assert hive.ctl("inbox", "parked") == []


def test_all_mail_of_an_agent_and_of_ones_own_is_marked_as_read(hive: Hive, iris: AgentAccess) -> None:
    for _ in range(3):
        hive.operator.send("iris", "old news")
        iris.json("POST", "/messages", {"to": "operator", "body": "old news"})
    assert hive.run("inbox", "ack", "--all", "--agent", "iris").stdout == "3 marked as read\n"
    assert iris.json("POST", "/inbox/recv", {})["messages"] == []
    assert len(hive.ctl("inbox")) == 3, "the operator's own are untouched"
    assert hive.ctl("inbox", "ack", "--all")["acked"] == 3
    assert hive.ctl("inbox") == []


@pytest.mark.parametrize("args", [[], ["12", "--all"], ["--all", "--id", "1"], ["0"], ["--id", "x"]])
def test_what_to_mark_as_read_is_said_exactly_once(hive: Hive, args: list[str]) -> None:
    assert hive.ctl("inbox", "ack", *args, exits=2)["error"]["code"] == "usage"


def test_refused_sends_are_in_the_audit_with_the_reason(hive: Hive, iris: AgentAccess) -> None:
    for _ in range(2):
        iris.http("POST", "/messages", {"to": "rut", "body": "secret words"})
    assert iris.call("send", to="ruth", body="x" * 70_000).error()
    rows: list[dict[str, Any]] = hive.ctl("audit", "--agent", "iris")
    sent = [row for row in rows if row["sender"] == "iris"]
    assert [(row["sender"], row["recipient"], row["code"], row["count"]) for row in sent] == [
        ("iris", "?", "not_found", 2),
        ("iris", "ruth", "body_too_large", 1),
    ]
    shown = hive.run("audit").stdout
    assert shown.splitlines()[0].split() == ["LAST", "FROM", "TO", "TIMES", "WHY"]
    assert "did you mean ruth?" in shown
    assert "secret words" not in shown
    assert hive.ctl("audit", "--agent", "ruth", "--limit", "1")[0]["code"] == "body_too_large"


@pytest.mark.requirement("delivery.unknown-seen")
def test_a_send_of_unknown_fate_is_in_the_audit_although_the_surface_alone_knew_of_it(
    hive: Hive, iris: AgentAccess
) -> None:
    # The surface's own deadline passes, and the client waits for longer.
    with hive.frozen("broker"):
        error = iris.call("send", to="ruth", body="secret words").error()
    assert "may or may not have been stored" in error

    def rows() -> list[dict[str, Any]]:
        return [row for row in hive.ctl("audit", "--agent", "iris") if row["code"] == "outcome_unknown"]

    eventually(rows, what="the surface has reported it", within=30)
    (row,) = rows()
    assert (row["sender"], row["recipient"], row["size"]) == ("iris", "ruth", len("secret words"))
    assert "secret words" not in str(row)


@pytest.mark.requirement("sent.command")
def test_what_was_sent_is_shown_with_how_it_stands(hive: Hive, iris: AgentAccess) -> None:
    number = hive.operator.send("iris", "are you there?\x1b[2J")
    (row,) = [row for row in hive.ctl("inbox", "sent") if row["id"] == number]
    assert (row["state"], row["delivered_count"], row["recipient_state"]) == ("pending", 0, "running")
    iris.json("POST", "/inbox/recv", {})
    shown = hive.run("inbox", "sent", str(number)).stdout
    assert "delivered  handed out once  iris is running" in shown
    assert "are you there?\\x1b[2J" in shown
    iris.drain()
    assert [row for row in hive.ctl("inbox", "sent") if row["id"] == number] == []
    assert hive.ctl("inbox", "sent", str(number))["state"] == "acked"
    hive.ctl("inbox", "sent", "999999", exits=4)

    sent = iris.json("POST", "/messages", {"to": "operator", "body": "here"})["sent"]
    (row,) = [row for row in hive.ctl("inbox", "sent", "--agent", "iris") if row["id"] == sent[0]["id"]]
    assert row["recipient_state"] == "operator"
