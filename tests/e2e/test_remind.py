"""`remind` by MCP: what it answers, what comes of it, and the files of long ones."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess, request
from tests.support.claude import Era
from tests.support.prose import Row, ids_of, rows_of
from tests.support.units import Units
from tests.support.waiting import eventually

LONG = "a line of a long reminder\n" * 400


def receive(agent: AgentAccess) -> Row:
    """The next message, as soon as it is there."""
    (row,) = eventually(lambda: rows_of(agent.call("recv").ok()), what="a message comes")
    return row


def texts(agent: AgentAccess) -> list[Path]:
    return sorted((agent.state_dir / "reminders").glob("*"))


@pytest.mark.requirement("remind.due")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_reminder_comes_to_the_inbox_marked_as_one(iris: AgentAccess, era: Era) -> None:
    answer = iris.call("remind", era=era, message="water the plants", delay_seconds=1).ok()
    found = re.fullmatch(
        r"Reminder #(\d+) is set for \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(unix \d+\)\.", answer
    )
    assert found is not None, answer
    row = receive(iris)
    assert (row.sender, row.body) == (f"iris (reminder #{found[1]})", "water the plants")
    iris.call("ack_until", up_to=row.id).ok()


@pytest.mark.requirement("remind.times")
@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({}, "exactly one of"),
        ({"delay_seconds": 5, "at_unix_timestamp": 4_000_000_000}, "exactly one of"),
        ({"delay_seconds": -3}, "at least 1"),
        ({"delay_seconds": 0.5}, "`delay_seconds`"),
        ({"delay_seconds": "soon"}, "`delay_seconds`"),
        ({"delay_seconds": 10**40}, "delay_seconds"),
        ({"at_unix_timestamp": 1}, "which is past"),
        ({"at_unix_timestamp": 4_000_000_000_000}, "not milliseconds"),
    ],
)
@pytest.mark.parametrize("size", [10, 5_000])
def test_a_time_that_cannot_be_is_an_error_and_leaves_nothing(
    iris: AgentAccess, times: dict[str, Any], said: str, size: int
) -> None:
    before = texts(iris)
    assert said in iris.call("remind", message="x" * size, **times).error()
    assert iris.json("GET", "/reminders")["reminders"] == []
    assert texts(iris) == before


@pytest.mark.requirement("remind.spill")
def test_a_long_reminder_lies_in_a_private_file_until_its_ack(iris: AgentAccess) -> None:
    iris.call("remind", message=LONG, delay_seconds=1).ok()
    (path,) = texts(iris)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (LONG, 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    row = receive(iris)
    assert f"({len(LONG)} bytes) is in {path} until you ack" in row.body
    assert len(row.body) < 1_000
    assert path.exists()
    iris.call("ack_until", up_to=row.id).ok()
    assert texts(iris) == []


@pytest.mark.requirement("remind.spill")
def test_the_file_goes_when_the_operator_marked_the_message_as_read(units: Units, iris: AgentAccess) -> None:
    iris.call("remind", message=LONG, delay_seconds=1).ok()
    row = receive(iris)
    note = iris.state_dir / "reminders" / "mine.txt"
    note.write_text("the agent's own")
    units.operator.json("POST", "/agents/iris/inbox/ack", {"ids": [row.id]})
    units.surfaces["iris"].restart()
    eventually(lambda: texts(iris) == [note], what="the file is gone, and no other")
    note.unlink()


@pytest.mark.requirement("remind.spill")
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_that_cannot_be_written_is_an_error_and_sets_nothing(
    iris: AgentAccess, tmp_path: Path, kind: str
) -> None:
    place = iris.state_dir / "reminders"
    moved = place.with_name("moved-away")
    if place.exists():
        place.rename(moved)
    put: dict[str, Callable[[], object]] = {
        "file": lambda: place.write_text("in the way"),
        "link": lambda: place.symlink_to(tmp_path),
    }
    put[kind]()
    try:
        error = iris.call("remind", message=LONG, delay_seconds=60).error()
        assert "could not be written" in error
        assert "Nothing was set" in error
        assert iris.json("GET", "/reminders")["reminders"] == []
        assert list(tmp_path.iterdir()) == []
    finally:
        place.unlink()
        if moved.exists():
            moved.rename(place)


@pytest.mark.requirement("remind.limits")
def test_more_than_64_kib_and_nothing_at_all_are_refused(iris: AgentAccess) -> None:
    assert "65536" in iris.call("remind", message="x" * 65_537, delay_seconds=5).error()
    assert "`message`" in iris.call("remind", message=" ", delay_seconds=5).error()
    assert texts(iris) == []


@pytest.mark.requirement("permissions.revoked-live")
def test_without_the_group_there_is_no_remind(units: Units, iris: AgentAccess) -> None:
    units.permit("iris", remove_groups=["inbox"])
    try:
        assert "`inbox`" in iris.call("remind", message="x", delay_seconds=5).error()
        assert "remind" not in {tool["name"] for tool in iris.list_tools()}
    finally:
        units.permit("iris", add_groups=["inbox"])
    assert ids_of(iris.call("recv").ok()) == []


@pytest.mark.requirement("remind.due")
def test_a_reminder_that_is_due_wakes_its_agent(iris: AgentAccess) -> None:
    url = f"{iris.surface_url}/api/wait?timeout_seconds=10"
    iris.call("remind", message="water the plants", delay_seconds=1).ok()
    answer = request("GET", url, token=iris.token).json()
    assert (answer["due"], "inbox" in str(answer["reasons"])) == (True, True), answer
    iris.drain()
