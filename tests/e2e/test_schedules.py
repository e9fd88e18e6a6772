"""The tools of the group `scheduling` by MCP, against real processes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.claude import Era
from tests.support.prose import Row, rows_of
from tests.support.units import Units, running_units
from tests.support.waiting import eventually

SNAPSHOT = Path(__file__).parent / "snapshots" / "tools_list_scheduling.json"
MAX_SHOWN_BYTES = 2700
TOOLS = {
    "request_schedule_prompt",
    "edit_schedule",
    "cancel_schedule",
    "fire_schedule_now",
    "list_schedules",
}


@pytest.fixture(scope="module")
def units() -> Iterator[Units]:
    """ruth (root) and iris below her; ruth has the group."""
    with running_units("ruth", "iris") as running:
        running.permit("ruth", add_groups=["scheduling"])
        yield running


@pytest.fixture
def ruth(units: Units) -> AgentAccess:
    agent = units.agents["ruth"]
    agent.drain()
    return agent


@pytest.fixture
def iris(units: Units) -> AgentAccess:
    agent = units.agents["iris"]
    agent.drain()
    return agent


def ask(agent: AgentAccess, *, seconds: int = 5_000, era: Era = MODERN, **more: Any) -> tuple[int, int]:
    """Ask for a schedule; answers its id and that of the approval."""
    arguments = {"targets": ["iris"], "body": "Report.", "first_fire_at_unix": int(time.time()) + seconds}
    text = agent.call("request_schedule_prompt", era=era, **(arguments | more)).ok()
    found = re.match(r"Schedule #(\d+) waits for the operator's approval \(#(\d+)\)\.", text)
    assert found, text
    return int(found[1]), int(found[2])


def schedule_of(agent: AgentAccess, number: int, era: Era = MODERN) -> dict[str, Any]:
    answer = agent.call("list_schedules", era=era)
    assert answer.ok()
    assert answer.shape is not None
    (row,) = [row for row in answer.shape["schedules"] if row["id"] == number]
    return dict(row)


def receive(agent: AgentAccess) -> Row:
    """The next message, as soon as it is there."""
    (row,) = eventually(lambda: rows_of(agent.call("recv").ok()), what="a message comes")
    return row


@pytest.mark.requirement("schedules.tools", "schedules.approved")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_schedule_from_the_question_to_the_end(
    units: Units, ruth: AgentAccess, iris: AgentAccess, era: Era
) -> None:
    number, approval = ask(ruth, seconds=4, era=era, description="daily", interval_seconds=3_600)
    assert schedule_of(ruth, number, era)["status"] == "pending"
    (row,) = [r for r in (ruth.call("get_loose_ends").shape or {})["loose_ends"] if r["kind"] == "approval"]
    assert (row["id"], row["asks"]) == (approval, "schedule_prompt")
    units.operator.json("POST", f"/approvals/{approval}/approve", {"note": "fine"})
    told = receive(ruth)
    assert (told.sender, f'"id": {approval}' in told.body, '"note": "fine"' in told.body) == (
        "system",
        True,
        True,
    )
    row_ = receive(iris)
    assert (row_.sender, row_.body) == (f"ruth (schedule #{number})", "Report.")

    assert "fired: sent to iris. It fires at" in ruth.call("fire_schedule_now", id=number).ok()
    assert receive(iris).body == "Report."
    text = ruth.call("edit_schedule", id=number, body="Other.").ok()
    assert "until then what was approved goes on" in text
    # Without the edit of the body: null, where it stands, is once only.
    once = ruth.call("edit_schedule", id=number, body="Report.", interval_seconds=None).ok()
    assert "is changed. It fires at" in once
    assert ", once, to iris." in once
    assert ruth.call("edit_schedule", id=number, description="d").ok().startswith("Schedule")
    assert "interval_seconds" not in schedule_of(ruth, number, era)
    assert ruth.call("cancel_schedule", id=number).ok() == f"Schedule #{number} is cancelled."
    assert schedule_of(ruth, number)["status"] == "cancelled"
    assert "cannot be edited" in ruth.call("edit_schedule", id=number, body="x").error()


@pytest.mark.requirement("schedules.consumed", "schedules.tools")
def test_what_waits_of_one_that_has_fired_is_withdrawn_by_cancelling_it(
    units: Units, ruth: AgentAccess
) -> None:
    number, approval = ask(ruth)
    units.operator.json("POST", f"/approvals/{approval}/approve", {})
    ruth.call("edit_schedule", id=number, interval_seconds=60).ok()
    assert "fired: sent to iris. It fires again only once" in ruth.call("fire_schedule_now", id=number).ok()
    waiting = schedule_of(ruth, number)
    assert (waiting["status"], "approval" in waiting) == ("done", True)
    assert ruth.call("cancel_schedule", id=number).ok() == f"Schedule #{number} has fired: sent to iris."
    assert "approval" not in schedule_of(ruth, number)
    assert "cannot be cancelled" in ruth.call("cancel_schedule", id=number).error()


@pytest.mark.requirement("schedules.times", "schedules.targets")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"targets": ["rut"]}, "did you mean ruth?"),
        ({"targets": []}, "`targets`"),
        ({"targets": "iris"}, "`targets`"),
        ({"first_fire_at_unix": 1}, "which is past"),
        ({"first_fire_at_unix": 2.5}, "`first_fire_at_unix`"),
        ({"first_fire_at_unix": 10**30}, "first_fire_at_unix"),
        ({"interval_seconds": 5}, "must be 60 to"),
        ({"body": "x" * 20_000}, "limit of a schedule"),
        ({"every": 5}, "`every` is not an argument"),
    ],
)
def test_what_cannot_be_is_an_error(ruth: AgentAccess, change: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {
        "targets": ["iris"],
        "body": "x",
        "first_fire_at_unix": int(time.time()) + 60,
    }
    assert said in ruth.call("request_schedule_prompt", **(arguments | change)).error()


@pytest.mark.requirement("schedules.own")
def test_a_foreign_id_changes_nothing_and_says_so(units: Units, ruth: AgentAccess, iris: AgentAccess) -> None:
    number, _ = ask(ruth)
    before = schedule_of(ruth, number)
    units.permit("iris", add_groups=["scheduling"])
    try:
        for tool in ("edit_schedule", "cancel_schedule", "fire_schedule_now"):
            more: dict[str, Any] = {"body": "x"} if tool == "edit_schedule" else {}
            assert "nothing was changed" in iris.call(tool, id=number, **more).error()
        assert (iris.call("list_schedules").shape or {})["schedules"] == []
    finally:
        units.permit("iris", remove_groups=["scheduling"])
    assert schedule_of(ruth, number) == before


@pytest.mark.requirement("envelope.definitions", "envelope.size")
def test_the_definitions_are_as_reviewed_and_small(ruth: AgentAccess) -> None:
    """After a wording change: `UPDATE_SNAPSHOTS=1`, then review the diff."""
    listed = [tool for tool in ruth.list_tools() if tool["name"] in TOOLS]
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(listed, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
    assert listed == json.loads(SNAPSHOT.read_text())
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed]
    assert len(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) <= MAX_SHOWN_BYTES


@pytest.mark.requirement("permissions.revoked-live")
def test_the_tools_are_there_with_the_group_alone(ruth: AgentAccess, iris: AgentAccess) -> None:
    assert {tool["name"] for tool in ruth.list_tools()} >= TOOLS
    assert not {tool["name"] for tool in iris.list_tools()} & TOOLS
    for tool in sorted(TOOLS):
        assert "`scheduling`" in iris.call(tool, id=1).error()
