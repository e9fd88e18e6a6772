"""Where the daemon's control group is its own to divide, each task has one: nothing of it gets away.

But in one test the tasks run without a sandbox, whose pid namespace would do the same.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.tasks.endings import end_all
from shared.tasks.supervisor.cgroup import kill_each
from tests.support.bash import (
    BashSurface,
    kill_supervisor_of,
    processes_with,
    running_bash,
    state_of,
    supervisor_of,
)
from tests.support.cgroup import delegated_group
from tests.support.waiting import eventually


@contextmanager
def running_within(group: Path, *, sandbox: str = "false") -> Iterator[BashSurface]:
    """A daemon in that group; it has started nothing when it is put there."""
    with running_bash(HIVE_BASH_SANDBOX=sandbox, HIVE_BASH_KILL_GRACE_SECONDS="1") as bash:
        enter(group, bash)
        yield bash


def enter(group: Path, bash: BashSurface) -> None:
    (group / "cgroup.procs").write_text(str(bash.unit.pid))


@pytest.fixture(scope="module")
def group() -> Iterator[Path]:
    with delegated_group() as made:
        yield made


@pytest.fixture(scope="module")
def bash(group: Path) -> Iterator[BashSurface]:
    with running_within(group) as running:
        yield running


def new_marker() -> str:
    """Seconds to sleep that no other process sleeps."""
    return f"1000.{secrets.randbelow(10**9):09}"


@pytest.fixture
def marker() -> str:
    return new_marker()


def start(bash: BashSurface, marker: str, more: str = "") -> str:
    """A task with a process that has left its session and its parent; its id."""
    task = bash.start(
        f"{more}(setsid sh -c '(sleep {marker} &) ; sleep {marker}' &) ; echo ready; sleep {marker}"
    )
    bash.wait_for_output(task, b"ready")
    eventually(lambda: len(processes_with(marker)) >= 4, what="all of it runs")
    return task


def pids_in(group: Path) -> set[int]:
    return set(map(int, (group / "cgroup.procs").read_text().split()))


def wait_until_removed(group: Path, task: str) -> None:
    eventually(lambda: not (group / f"task-{task}").exists(), what="the group is removed")


@pytest.mark.requirement("bash.cgroup")
def test_all_of_a_task_is_in_its_group_and_nothing_of_the_daemon(
    bash: BashSurface, group: Path, marker: str
) -> None:
    task = start(bash, marker)

    eventually(lambda: set(processes_with(marker)) == pids_in(group / f"task-{task}"))
    assert {bash.unit.pid, supervisor_of(bash, task)} <= pids_in(group)

    assert state_of(bash.kill(task)).startswith("killed, signal 15 (SIGTERM)")
    assert processes_with(marker) == []
    wait_until_removed(group, task)


@pytest.mark.requirement("bash.cgroup")
def test_the_first_process_of_a_sandbox_is_in_it_too(group: Path, marker: str) -> None:
    with running_within(group, sandbox="true") as bash:
        task = start(bash, marker)

        eventually(lambda: set(processes_with(marker)) <= pids_in(group / f"task-{task}"))
        assert supervisor_of(bash, task) in pids_in(group)

        bash.kill(task)
        wait_until_removed(group, task)


@pytest.mark.requirement("bash.cgroup-kill")
@pytest.mark.parametrize("what", ["kill", "timeout", "end"])
def test_what_ignores_sigterm_and_forks_is_killed_with_its_group(
    bash: BashSurface, group: Path, marker: str, what: str
) -> None:
    stays = f"sh -c 'trap \"\" TERM; while :; do sleep {marker} & sleep 0.01; done'"
    if what == "end":
        task = bash.start(f"setsid {stays} & echo ready")
    else:
        task = bash.start(f"echo ready; setsid {stays}", timeout_secs=1 if what == "timeout" else None)
    bash.wait_for_output(task, b"ready")

    end = state_of(bash.kill(task)) if what == "kill" else bash.end(task)

    assert end.startswith({"kill": "killed", "timeout": "timed_out", "end": "done, exit code 0"}[what])
    assert processes_with(marker) == []
    wait_until_removed(group, task)


@pytest.mark.requirement("bash.cgroup-orphans")
def test_nothing_is_left_of_a_task_whose_supervisor_is_killed(
    bash: BashSurface, group: Path, marker: str
) -> None:
    task = start(bash, marker)

    kill_supervisor_of(bash, task)

    assert bash.end(task).startswith("interrupted")
    assert processes_with(marker) == []
    wait_until_removed(group, task)


@pytest.mark.requirement("bash.cgroup-orphans")
def test_groups_that_a_task_has_made_in_its_own_go_as_well(
    bash: BashSurface, group: Path, marker: str
) -> None:
    inner = f"own=$(grep task- /proc/self/cgroup); inner={group}/${{own##*/}}/inner; "
    task = start(bash, marker, f"{inner} mkdir $inner; echo $$ >$inner/cgroup.procs; ")
    assert pids_in(group / f"task-{task}" / "inner")

    kill_supervisor_of(bash, task)

    assert bash.end(task).startswith("interrupted")
    assert processes_with(marker) == []
    wait_until_removed(group, task)


@pytest.mark.requirement("bash.cgroup-restart")
def test_a_daemon_finds_the_tasks_that_the_one_before_has_left(group: Path) -> None:
    marker, other = new_marker(), new_marker()
    with running_within(group) as bash:
        kept, orphaned = start(bash, marker), start(bash, other)
        bash.unit.kill()
        kill_supervisor_of(bash, orphaned)
        assert processes_with(other)

        bash.unit.start()
        enter(group, bash)

        assert bash.end(orphaned).startswith("interrupted")
        assert processes_with(other) == []
        wait_until_removed(group, orphaned)
        assert state_of(bash.status(kept)) == "running"
        assert state_of(bash.run("echo new")).startswith("done, exit code 0")
        assert state_of(bash.kill(kept)).startswith("killed, signal 15 (SIGTERM)")
        wait_until_removed(group, kept)


@pytest.mark.requirement("bash.cgroup-restart")
def test_the_end_of_an_agent_ends_what_killed_supervisors_have_left(group: Path, marker: str) -> None:
    with running_within(group) as bash:
        task = start(bash, marker)
        bash.unit.kill()
        kill_supervisor_of(bash, task)
        assert processes_with(marker)

        assert end_all(bash.data_dir, "the test is over", 1) == []

        assert processes_with(marker) == []
        assert not (group / f"task-{task}").exists()


@pytest.mark.requirement("bash.cgroup-absent")
def test_a_group_that_was_not_handed_over_stays_undivided(marker: str) -> None:
    with delegated_group() as group, running_within(group) as bash:
        os.removexattr(group, "user.delegate")
        task = start(bash, marker)

        assert [path for path in group.iterdir() if path.is_dir()] == []
        eventually(lambda: set(processes_with(marker)) <= pids_in(group))

        bash.kill(task)
        assert processes_with(marker) == []


@pytest.mark.requirement("bash.cgroup-kill")
def test_where_the_kernel_cannot_kill_a_group_its_processes_are_killed_one_by_one(
    group: Path, marker: str
) -> None:
    within = group / "each"
    within.mkdir()
    forker = f"trap '' TERM; read go; while :; do setsid sleep {marker} & sleep 0.01; done"
    with subprocess.Popen(["sh", "-c", forker], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        (within / "cgroup.procs").write_text(str(process.pid))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        eventually(lambda: len(pids_in(within)) > 5, what="it has forked")

        kill_each(within)

    eventually(lambda: processes_with(marker) == [])
    eventually(lambda: "populated 0" in (within / "cgroup.events").read_text())
    within.rmdir()
