"""What the operator sees of tasks, ends, and opens to them, in a real hive."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.support.bash import id_of, processes_with, state_of
from tests.support.hive import Hive
from tests.support.waiting import eventually


@pytest.mark.requirement("bash.operator-sees")
def test_hivectl_lists_a_task_and_ends_it(hive: Hive) -> None:
    bash = hive.agent("iris").at("bash")
    marker = f"1000.{secrets.randbelow(10**9):09}"
    task = id_of(bash.call("run", cmd=f"sleep {marker}", wait_seconds=0).ok())

    row = eventually(
        lambda: next((row for row in hive.ctl("tasks", "iris")["tasks"] if row["id"] == task), None)
    )
    assert (row["state"], row["surface"], row["title"]) == ("running", "bash", f"sleep {marker}")
    assert hive.run("tasks", "kill", task).returncode == 0

    ended = bash.call("status", id=task, wait_seconds=20).ok()
    assert state_of(ended).startswith("killed")
    assert "the operator ended it" in ended
    assert processes_with(marker) == []


@pytest.mark.requirement("bash.operator-paths")
def test_a_path_that_the_operator_opens_is_there_for_the_next_task(hive: Hive, tmp_path: Path) -> None:
    bash = hive.agent("iris").at("bash")
    (tmp_path / "there").write_text("from outside")
    look = f"cat {tmp_path}/there; echo from inside > {tmp_path}/back"

    assert "from outside" not in bash.call("run", cmd=look).ok()

    for mode, written in (("ro", False), ("rw", True)):
        hive.ctl("agent", "permissions", "iris", "--path", f"{tmp_path}:{mode}")
        assert "from outside" in bash.call("run", cmd=look).ok()
        assert (tmp_path / "back").exists() is written

    hive.ctl("agent", "permissions", "iris", "--remove-path", str(tmp_path))
    assert "from outside" not in bash.call("run", cmd=look).ok()


@pytest.mark.requirement("bash.agent-stop")
def test_the_end_of_an_agent_ends_its_tasks_and_a_restart_does_not(hive: Hive) -> None:
    bash = hive.agent("iris").at("bash")
    marker = f"1000.{secrets.randbelow(10**9):09}"
    task = id_of(bash.call("run", cmd=f"setsid sleep {marker} & sleep {marker}", wait_seconds=0).ok())
    eventually(lambda: len(processes_with(marker)) > 1)

    hive.ctl("agent", "restart", "iris")
    assert state_of(bash.call("status", id=task).ok()) == "running"
    assert processes_with(marker)

    hive.ctl("agent", "stop", "iris")
    assert processes_with(marker) == []

    hive.ctl("agent", "start", "iris")
    assert "the agent was stopped" in bash.call("status", id=task).ok()


@pytest.mark.requirement("bash.agent-stop")
def test_what_waits_ends_with_its_agent_too(hive: Hive) -> None:
    bash = hive.agent("iris").at("bash")
    marker = f"1000.{secrets.randbelow(10**9):09}"
    tasks = [id_of(bash.call("run", cmd=f"sleep {marker}", wait_seconds=0).ok()) for _ in range(34)]
    assert state_of(bash.call("status", id=tasks[-1]).ok()) == "pending"

    hive.ctl("agent", "stop", "iris")
    hive.ctl("agent", "start", "iris")

    for task in (tasks[0], tasks[-1]):
        assert "killed" in state_of(bash.call("status", id=task).ok())
    assert processes_with(marker) == []
