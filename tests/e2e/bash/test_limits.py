"""Limits on each process of a task, and what a restart of the machine makes of tasks."""

from __future__ import annotations

import sqlite3

import pytest

from tests.support.bash import BashSurface, kill_supervisor_of, running_bash, state_of

MIB = 1 << 20


@pytest.mark.requirement("bash.limits")
def test_a_process_that_takes_too_much_is_held_by_the_settings() -> None:
    limits = {"HIVE_BASH_MAX_MEMORY_BYTES": str(64 * MIB), "HIVE_BASH_MAX_CPU_SECONDS": "1"}
    with running_bash(**limits) as bash:
        assert state_of(bash.run("exit 3", wait_seconds=20)).startswith("done, exit code 3")
        greedy = bash.run(f"python3 -c 'bytearray({200 * MIB})'", wait_seconds=20)
        assert state_of(greedy).startswith("done, exit code 1")
        assert "MemoryError" in greedy
        busy = bash.run("while :; do :; done", wait_seconds=30)
        assert state_of(busy).startswith(("done, signal 9", "done, signal 24"))


@pytest.mark.requirement("bash.machine-restart")
def test_after_a_restart_of_the_machine_what_ran_is_interrupted(bash: BashSurface) -> None:
    task = bash.start("echo before; sleep 1000")
    bash.wait_for_output(task, b"before")
    bash.unit.kill()
    kill_supervisor_of(bash, task)
    # All that tells one boot from another.
    with sqlite3.connect(bash.data_dir / "bash-tasks.sqlite") as db:
        db.execute("UPDATE tasks SET boot = 'another' WHERE id = ?", (task,))
    db.close()

    bash.unit.start()

    assert bash.end(task).startswith("interrupted")
    answer = bash.status(task)
    assert "the machine was restarted" in answer
    assert "before" in answer
