"""What agents plan ahead as the operator sees it, by `hivectl`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

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


@pytest.mark.requirement("planning.operator-cancels")
def test_reminders_are_shown_and_cancelled_of_all_agents_and_of_one(hive: Hive, iris: AgentAccess) -> None:
    assert hive.run("reminders").stdout == "no reminder is pending\n"
    later = iris.json("POST", "/reminders", {"body": "later\x1b[2J\nsecond line", "delay_seconds": 500})
    sooner = hive.agent("ruth").json("POST", "/reminders", {"body": "sooner", "delay_seconds": 400})
    assert [row["id"] for row in hive.ctl("reminders")] == [sooner["id"], later["id"]]
    (row,) = hive.ctl("reminders", "--agent", "iris")
    assert (row["agent"], row["due_at"], row["held"]) == ("iris", later["due_at"], False)
    shown = hive.run("reminders", "--agent", "iris").stdout
    assert shown.splitlines()[0].split() == ["ID", "AGENT", "DUE", "TEXT"]
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2
    assert hive.ctl("reminders", "--agent", "milo", exits=4)["error"]["code"] == "not_found"
    assert "there are more" in hive.run("reminders", "--limit", "1").stderr

    assert hive.ctl("reminders", "cancel", str(sooner["id"]))["body"] == "sooner"
    assert hive.ctl("reminders", "cancel", str(sooner["id"]), exits=4)["error"]["code"] == "not_found"
    hive.ctl("reminders", "cancel", "x", exits=2)
    said = hive.run("reminders", "cancel", str(later["id"])).stdout
    assert said == f"reminder {later['id']} of iris is cancelled: later [2J second line\n"
    assert hive.ctl("reminders") == []


def ask(agent: AgentAccess, text: str) -> int:
    return int(agent.json("POST", "/approvals", {"tool": "Write", "input": text})["id"])


@pytest.mark.requirement("approvals.operator", "approvals.once")
def test_approvals_are_listed_shown_approved_and_denied(hive: Hive, iris: AgentAccess) -> None:
    hive.ctl("agent", "permissions", "iris", "--add-capability", "relay_permissions")
    assert hive.run("approvals", "list").stdout == "nothing waits for an approval\n"
    first, second = ask(iris, "one\x1b[2J\nkind: approved"), ask(iris, "two")
    rows = hive.ctl("approvals", "list")
    assert [(row["id"], row["kind"], row["agent"], row["status"]) for row in rows] == [
        (first, "tool_permission", "iris", "pending"),
        (second, "tool_permission", "iris", "pending"),
    ]
    shown = hive.run("approvals", "show", str(first)).stdout
    assert "\x1b" not in shown
    assert "  | kind: approved" in shown
    assert hive.ctl("approvals", "show", str(first))["content"]["input"] == "one\x1b[2J\nkind: approved"

    assert hive.ctl("approvals", "approve", str(first))["status"] == "approved"
    denied = hive.ctl("approvals", "deny", str(second), "--note", "not today")
    assert (denied["status"], denied["note"]) == ("denied", "not today")
    error = hive.ctl("approvals", "approve", str(second), exits=5)["error"]
    assert (error["code"], "not today" in error["message"]) == ("already_settled", True)
    assert hive.ctl("approvals", "list") == []
    assert [row["status"] for row in hive.ctl("approvals", "list", "--all")] == ["approved", "denied"]
    assert hive.run("approvals", "list", "--all").stdout.splitlines()[0].split()[:2] == ["ID", "ASKED"]
    hive.ctl("approvals", "show", "999", exits=4)
    for command in (("approvals", "list"), ("audit",), ("schedules", "list"), ("reminders",)):
        assert "did you mean iris?" in hive.ctl(*command, "--agent", "irs", exits=4)["error"]["message"]
    hive.ctl("approvals", "show", "x", exits=2)
    hive.ctl("approvals", "deny", "1", "--note", " ", exits=2)


@pytest.mark.requirement("planning.operator-sees", "planning.operator-cancels")
def test_schedules_are_listed_and_approved(hive: Hive, iris: AgentAccess) -> None:
    hive.ctl("agent", "permissions", "iris", "--add-group", "scheduling")
    assert hive.run("schedules", "list").stdout == "there is no schedule\n"
    at = int(time.time()) + 5_000
    body = {"targets": ["iris"], "body": "Report\x1b[2J.", "first_fire_at_unix": at, "interval_seconds": 60}
    made = iris.json("POST", "/schedules", body)
    (row,) = [row for row in hive.ctl("approvals", "list") if row["kind"] == "schedule_prompt"]
    assert (row["agent"], row["id"]) == ("iris", made["approval"])
    shown = hive.run("approvals", "show", str(row["id"])).stdout
    assert (
        f"first_fire_at_unix:\n  | {datetime.fromtimestamp(at, tz=UTC).astimezone():%Y-%m-%d %H:%M:%S}\n"
        in shown
    )
    hive.ctl("approvals", "approve", str(row["id"]))
    iris.json("POST", f"/schedules/{made['id']}/fire")
    assert "iris -> iris" in hive.run("agent", "inbox", "iris").stdout
    assert f"schedule #{made['id']}" in hive.run("agent", "inbox", "iris").stdout
    (schedule,) = hive.ctl("schedules", "list", "--agent", "iris")
    assert (schedule["id"], schedule["status"], schedule["next_fire_at"]) == (made["id"], "active", at)
    shown = hive.run("schedules", "list").stdout
    assert shown.splitlines()[0].split() == ["ID", "OWNER", "STATUS", "NEXT", "EVERY", "TO", "LAST", "WHAT"]
    assert "\x1b" not in shown
    assert hive.ctl("schedules", "cancel", str(made["id"]))["last_result"] == "cancelled by the operator"
    assert hive.ctl("schedules", "cancel", str(made["id"]), exits=5)["error"]["code"] == "schedule_ended"
    hive.ctl("schedules", "cancel", "999", exits=4)
    assert hive.ctl("schedules", "list") == []
    assert [row["status"] for row in hive.ctl("schedules", "list", "--all")] == ["cancelled"]
