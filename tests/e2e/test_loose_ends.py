"""`get_loose_ends` and `cancel_loose_end` by MCP, with every source there and with one down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.bash import id_of
from tests.support.claude import Era
from tests.support.line_client import ask
from tests.support.script import JsonObject
from tests.support.units import Units, running_units


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    """ruth (root) and iris."""
    with running_units("ruth", "iris") as running:
        yield running


@pytest.fixture
def ruth(units: Units) -> AgentAccess:
    return units.agents["ruth"]


@pytest.fixture
def iris(units: Units) -> Iterator[AgentAccess]:
    """iris without loose ends, and her store of todos."""
    units.revive()
    agent = units.agents["iris"]
    agent.drain()
    yield agent
    for row in agent.json("GET", "/reminders")["reminders"]:
        agent.json("DELETE", f"/reminders/{row['id']}")


@pytest.fixture
def sock(units: Units, iris: AgentAccess) -> Iterator[Path]:
    """Her in-agent socket."""
    path = units.layout.agent(iris.name).agent_socket
    yield path
    # Very long ones come in pages.
    while todos := ask(path, "list_todos")["todos"]:
        ask(path, "mark_todos_done", ids=[todo["id"] for todo in todos])


def shape_of(agent: AgentAccess, era: Era = MODERN) -> dict[str, Any]:
    answer = agent.call("get_loose_ends", era=era)
    answer.ok()
    assert answer.shape is not None
    return answer.shape


@pytest.mark.requirement("loose-ends.shape")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_all_kinds_stand_in_one_list(ruth: AgentAccess, iris: AgentAccess, sock: Path, era: Era) -> None:
    assert shape_of(iris, era) == {"loose_ends": [], "unavailable": []}
    iris.call("remind", message="water the plants", delay_seconds=5_000).ok()
    ruth.call("send", to="iris", body="hello").ok()
    todo = ask(sock, "upsert_todo", subsystem="ci", key="build", summary="it is red", detail="a\nb")["id"]
    shape = shape_of(iris, era)
    assert [(row["kind"], row.get("summary")) for row in shape["loose_ends"]] == [
        ("inbox", None),
        ("reminder", "water the plants"),
        ("todo", "it is red"),
    ]
    assert shape["unavailable"] == []
    last = shape["loose_ends"][-1]
    assert (last["id"], last["subsystem"], last["key"], last["detail"]) == (todo, "ci", "build", "a b")


@pytest.mark.requirement("loose-ends.cancel", "loose-ends.own-only")
def test_a_reminder_is_cancelled_and_a_foreign_one_is_not(ruth: AgentAccess, iris: AgentAccess) -> None:
    iris.call("remind", message="x" * 5_000, delay_seconds=5_000).ok()
    (row,) = shape_of(iris)["loose_ends"]
    (file,) = (iris.state_dir / "reminders").iterdir()
    assert "nothing was changed" in ruth.call("cancel_loose_end", kind="reminder", id=row["id"]).error()
    assert shape_of(iris)["loose_ends"] == [row]
    assert file.exists()
    assert iris.call("cancel_loose_end", kind="reminder", id=row["id"]).ok() == (
        f"Reminder #{row['id']} is deleted."
    )
    assert not file.exists()
    assert "no pending reminder" in iris.call("cancel_loose_end", kind="reminder", id=row["id"]).error()


@pytest.mark.requirement("loose-ends.cancel")
def test_a_todo_is_cleared(iris: AgentAccess, sock: Path) -> None:
    number = ask(sock, "upsert_todo", subsystem="ci", key="build", summary="it is red")["id"]
    assert iris.call("cancel_loose_end", kind="todo", id=number).ok() == f"Todo #{number} is cleared."
    assert shape_of(iris)["loose_ends"] == []
    assert "nothing was changed" in iris.call("cancel_loose_end", kind="todo", id=number).error()


@pytest.mark.requirement("loose-ends.cap")
def test_very_many_are_cut_to_an_answer_and_counted(iris: AgentAccess, sock: Path) -> None:
    for number in range(200):
        ask(
            sock,
            "upsert_todo",
            subsystem="ci",
            key=f"k{number}",
            summary="s" * 2_000,
            detail="\u00fc" * 5_000,
        )
    answer = iris.call("get_loose_ends")
    assert len(answer.ok().encode()) <= 40_000
    assert answer.shape is not None
    shown, omitted = answer.shape["loose_ends"], answer.shape["omitted"]
    assert (len(shown) > 30, len(shown) + omitted) == (True, 200)
    assert len(shown[0]["summary"]) <= 200


@pytest.mark.requirement("loose-ends.cancel")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("inbox", "ack_until"),
        ("matrix", "mark_read"),
        ("task", "kill of the surface that runs it, such as bash"),
        ("schedule", "These can: approval, reminder, todo"),
        ("todo", "no open todo #9; nothing was changed"),
        ("approval", "only the root agent"),
    ],
)
def test_what_cannot_be_cancelled_says_what_helps(iris: AgentAccess, kind: str, said: str) -> None:
    assert said in iris.call("cancel_loose_end", kind=kind, id=9).error()


@pytest.mark.requirement("loose-ends.cancel")
@pytest.mark.parametrize(
    ("kind", "number", "said"),
    [
        ("inbox", 0, "'inbox' cannot be cancelled: ack_until marks mail as dealt with"),
        ("task", "a1b2c3d4", "'task' cannot be cancelled: kill"),
        ("matrix", "!room:example.org", "'matrix' cannot be cancelled: mark_read"),
        ("todo", "a1b2c3d4", "`id`: input should be a valid integer"),
        ("reminder", 0, "`id`: input should be greater than or equal to 1"),
    ],
)
def test_the_kind_is_looked_at_before_the_id(iris: AgentAccess, kind: str, number: object, said: str) -> None:
    assert said in iris.call("cancel_loose_end", kind=kind, id=number).error()


@pytest.mark.requirement("loose-ends.source-down")
def test_with_the_broker_down_todos_are_there_and_the_rest_is_named(
    units: Units, iris: AgentAccess, sock: Path
) -> None:
    ask(sock, "upsert_todo", subsystem="ci", key="build", summary="it is red")
    units.broker.kill()
    try:
        shape = shape_of(iris)
        assert shape["unavailable"] == ["inbox", "approval", "reminder", "sent"]
        assert [row["kind"] for row in shape["loose_ends"]] == ["todo"]
    finally:
        units.broker.start()
    assert shape_of(iris)["unavailable"] == []


@pytest.mark.requirement("approvals.cancel")
def test_the_root_agent_cancels_its_own_question(units: Units, ruth: AgentAccess) -> None:
    units.permit("ruth", add_groups=["approvals"], add_capabilities=["relay_permissions"])
    number = ruth.json("POST", "/approvals", {"tool": "Write", "input": "x"})["id"]
    (row,) = [row for row in shape_of(ruth)["loose_ends"] if row["kind"] == "approval"]
    assert (row["id"], row["asks"]) == (number, "tool_permission")
    assert ruth.call("cancel_loose_end", kind="approval", id=number).ok() == (
        f"Approval #{number} is cancelled."
    )
    assert "settled once" in ruth.call("cancel_loose_end", kind="approval", id=number).error()


@pytest.mark.requirement("loose-ends.tasks")
def test_running_tasks_are_counted_by_surface_also_while_that_surface_is_down(
    units: Units, iris: AgentAccess
) -> None:
    bash = units.add_bash("iris", HIVE_BASH_KILL_GRACE_SECONDS="0")
    task = id_of(bash.call("run", cmd="sleep 1000", wait_seconds=0).ok())
    expected = {"kind": "task", "id": 0, "surface": "bash", "running": 1, "task_ids": [task]}

    assert expected in _open(iris)

    units.bash["iris"].kill()
    assert expected in _open(iris)

    units.bash["iris"].start()
    bash.call("kill", id=task).ok()
    assert [row for row in _open(iris) if row["kind"] == "task"] == []


@pytest.mark.requirement("loose-ends.tasks")
def test_a_task_is_no_loose_end_to_cancel(iris: AgentAccess) -> None:
    assert "such as bash, ends a task" in iris.call("cancel_loose_end", kind="task", id=1).error()


def _open(agent: AgentAccess) -> list[JsonObject]:
    shape = agent.call("get_loose_ends").shape
    assert shape is not None
    assert shape["unavailable"] == []
    return list(shape["loose_ends"])
