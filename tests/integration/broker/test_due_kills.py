"""`kill -9` of the broker at each step between "due" and "delivered": everything comes exactly once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.faulty_broker import STEPS
from tests.support.units import Units, running_units
from tests.support.waiting import eventually

COUNT = 5


@pytest.fixture
def units(database_setting: None, request: pytest.FixtureRequest) -> Iterator[Units]:
    """A broker that can be told where to die, with ruth and iris."""

    url = os.environ.get("HIVE_BROKER_DATABASE_URL")
    database = {} if url is None else {"HIVE_BROKER_DATABASE_URL": url}
    with running_units(preload="tests.support.faulty_broker", FAULT_AT="", **database) as units:
        units.enlist("ruth")
        units.enlist("iris", parent="ruth")
        yield units


def die_at(units: Units, step: str, number: int) -> None:
    """Start the broker so that it ends at that step, and wait for its end."""
    with suppress(RuntimeError):  # It may be gone before it has answered once.
        units.broker.start(FAULT_AT=f"{step}:{number}")
    assert units.broker.wait() == -signal.SIGKILL


@pytest.mark.requirement("due.kills")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_each_step_of_a_reminder_loses_and_doubles_none(units: Units, step: str) -> None:
    iris = units.agents["iris"]
    bodies = [f"reminder {number}" for number in range(COUNT)]
    for body in bodies:
        iris.json("POST", "/reminders", {"body": body, "delay_seconds": 1})
    units.broker.kill()
    # In a batch "due" and "committed" come once; the others once a reminder.
    die_at(units, step, 1)
    if step in {"claimed", "delivered"}:
        die_at(units, step, COUNT)
    units.broker.start(FAULT_AT="")

    eventually(lambda: not iris.json("GET", "/reminders")["reminders"], what="all are delivered")
    rows = iris.json("POST", "/inbox/recv", {"max": 5})["messages"]
    assert [row["body"] for row in rows] == bodies
    assert iris.json("POST", "/inbox/recv", {"max": 5})["messages"] == []


@pytest.mark.requirement("due.kills")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_each_step_of_a_schedule_fires_each_time_once(units: Units, step: str) -> None:
    ruth, iris = units.agents["ruth"], units.agents["iris"]
    units.permit("ruth", add_groups=["scheduling"])
    made = []
    for number in range(COUNT):
        body = {
            "targets": ["ruth", "iris"],
            "body": f"prompt {number}",
            "first_fire_at_unix": int(time.time()) + 2,
            "interval_seconds": 3_600,
        }
        made.append(ruth.json("POST", "/schedules", body))
    for schedule in made:
        units.operator.json("POST", f"/approvals/{schedule['approval']}/approve", {})
    units.broker.kill()
    die_at(units, step, 1)
    if step in {"claimed", "delivered"}:
        die_at(units, step, COUNT)
    units.broker.start(FAULT_AT="")

    def fires() -> list[int]:
        return [row["fires"] for row in ruth.json("GET", "/schedules")["schedules"]]

    eventually(lambda: fires() == [1] * COUNT, what="all have fired")
    for agent in (ruth, iris):
        bodies: list[str] = []
        while rows := agent.json("POST", "/inbox/recv", {"max": 5})["messages"]:
            bodies += [row["body"] for row in rows if row["sender"] == "ruth"]
        assert sorted(bodies) == [f"prompt {number}" for number in range(COUNT)]
