"""Tasks that lose their daemon, or the supervisor: they go on, are nobody's leftovers, end with the hive."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.access import AgentAccess
from tests.support.bash import id_of, processes_with, state_of
from tests.support.hive import Hive, running_hive
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("tasks.orphans")


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    """Each test leaves it up, without a task."""
    with running_hive() as running:
        yield running


@pytest.fixture
def bash(hive: Hive) -> AgentAccess:
    return hive.agent("ruth").at("bash")


def start(bash: AgentAccess) -> tuple[str, str]:
    """A task that goes on; its id, and what marks its processes."""
    marker = f"1000.{secrets.randbelow(10**9):09}"
    task = id_of(bash.call("run", cmd=f"sleep {marker}", wait_seconds=0).ok())
    eventually(lambda: processes_with(marker), what="the task runs")
    return task, marker


def kill_supervisor(hive: Hive) -> None:
    """`kill -9` of `hivectl up`; its units get SIGTERM from the kernel, and are waited for."""
    pid = json.loads((hive.layout.run_dir / "supervisor.lock").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not hive.pids(), within=20, what="its units have ended")


def children_of(pid: int) -> list[str]:
    """The states of a process's children, by proc(5), stat."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid:
            found.append(state)
    return found


def test_a_daemon_that_is_killed_leaves_its_tasks_to_the_next_and_none_to_be_buried(
    hive: Hive, bash: AgentAccess
) -> None:
    tasks = [start(bash) for _ in range(3)]
    up = json.loads((hive.layout.run_dir / "supervisor.lock").read_text())["pid"]
    hive.kill("bash-ruth")
    for task, marker in tasks:
        assert state_of(bash.call("status", id=task).ok()) == "running"
        assert processes_with(marker)
    for task, marker in tasks:
        assert state_of(bash.call("kill", id=task).ok()).startswith("killed")
        assert processes_with(marker) == []
    # What they left behind was the supervisor's to bury.
    eventually(lambda: "Z" not in children_of(up), what="no zombie is left")


def test_tasks_outlive_the_supervisor_and_the_next_one_has_them(hive: Hive, bash: AgentAccess) -> None:
    task, marker = start(bash)
    kill_supervisor(hive)
    assert processes_with(marker)
    hive.up()
    assert state_of(bash.call("status", id=task).ok()) == "running"
    eventually(lambda: [one["id"] for one in hive.ctl("tasks")["tasks"]] == [task], what="it is reported")
    hive.down()
    assert processes_with(marker) == []
    hive.up()


def test_down_ends_what_a_killed_supervisor_left(hive: Hive, bash: AgentAccess) -> None:
    task, marker = start(bash)
    kill_supervisor(hive)
    assert processes_with(marker)
    hive.down()
    assert processes_with(marker) == []
    hive.up()
    assert "the hive went down" in bash.call("status", id=task).ok()


def test_what_ends_while_the_agent_is_down_is_told_once_it_is_back(hive: Hive, bash: AgentAccess) -> None:
    task, marker = start(bash)
    hive.ctl("agent", "stop", "ruth")
    assert processes_with(marker) == []
    assert hive.ctl("tasks", "ruth")["surfaces"][0]["connected"] is False
    hive.ctl("agent", "start", "ruth")
    wanted = (task, "killed")
    ended = eventually(
        lambda: [one for one in hive.ctl("tasks", "--all")["tasks"] if (one["id"], one["state"]) == wanted],
        what="the end is reported",
    )
    assert len(ended) == 1
