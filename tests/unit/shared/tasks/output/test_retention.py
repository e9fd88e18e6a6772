"""Quota and sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tasks.output.retention import (
    LEAST_BYTES,
    Grant,
    TaskFiles,
    measure_task,
    plan_start,
    plan_sweep,
    remove_task,
)
from tests.unit.shared.tasks.output.feeding import Feed, counting

MIB = 1024 * 1024

_tasks = st.builds(
    TaskFiles,
    task_id=st.uuids().map(str),
    bytes=st.integers(min_value=0, max_value=64 * MIB),
    finished_at=st.none() | st.floats(min_value=0, max_value=1e9),
    read=st.booleans(),
)


@pytest.mark.requirement("output.quota")
@given(tasks=st.lists(_tasks, max_size=40, unique_by=lambda task: task.task_id))
def test_a_grant_fits_and_costs_only_what_was_read(tasks: list[TaskFiles]) -> None:
    grant = plan_start(tasks, quota_bytes=1024 * MIB, cap_bytes=64 * MIB)
    by_id = {task.task_id: task for task in tasks}
    removed = [by_id[task_id] for task_id in grant.remove]
    assert all(task.read and task.finished_at is not None for task in removed)
    assert [task.finished_at for task in removed] == sorted(task.finished_at or 0 for task in removed)
    left = 1024 * MIB - sum(task.bytes for task in tasks) + sum(task.bytes for task in removed)
    assert grant.cap_bytes == 0 or LEAST_BYTES <= grant.cap_bytes <= min(left, 64 * MIB)
    if grant.cap_bytes == 0:
        assert left < LEAST_BYTES
        assert all(task in removed for task in tasks if task.read and task.finished_at is not None)


@pytest.mark.requirement("output.quota")
def test_running_tasks_share_what_there_is() -> None:
    running: list[TaskFiles] = []
    while (grant := plan_start(running, quota_bytes=1024 * MIB, cap_bytes=64 * MIB)).cap_bytes:
        assert grant.remove == ()
        running.append(TaskFiles(str(len(running)), grant.cap_bytes))
    assert sum(task.bytes for task in running) <= 1024 * MIB
    assert [task.bytes // MIB for task in running[:18]] == [64] * 15 + [32, 16, 8]
    assert len(running) > 20
    done = [TaskFiles("old", 10 * MIB, 1.0, read=True), TaskFiles("new", 90 * MIB, 2.0, read=True)]
    left = TaskFiles("rest", 1024 * MIB - 100 * MIB)
    assert plan_start([left, *done], quota_bytes=1024 * MIB, cap_bytes=8 * MIB) == Grant(5 * MIB, ("old",))


@pytest.mark.requirement("output.sweep")
def test_the_sweep_takes_old_results_that_were_read() -> None:
    tasks = [
        TaskFiles("running", 1),
        TaskFiles("unread", 1, 1.0),
        TaskFiles("new", 1, 95.0, read=True),
        TaskFiles("newer", 1, 50.0, read=True),
        TaskFiles("old", 1, 10.0, read=True),
    ]
    assert plan_sweep(tasks, now=100, keep_seconds=50) == ("old", "newer")


@pytest.mark.requirement("output.sweep")
def test_all_files_of_a_task_go_and_no_others(tmp_path: Path) -> None:
    with Feed(tmp_path, 1_000_000) as feed:
        feed.write(counting(3_000_000))
        (tmp_path / "task1234.err").write_bytes(b"error")
        for other in ("task12345.out", "task123.err", "task1234.txt"):
            (tmp_path / other).touch()
        feed.finish()
        assert measure_task(feed.directory_fd, "task1234") >= 500_000
        assert remove_task(feed.directory_fd, "task1234")
        assert remove_task(feed.directory_fd, "task1234")
        assert measure_task(feed.directory_fd, "task1234") == 0
        (tmp_path / "task1234.out").mkdir()
        (tmp_path / "task1234.out" / "held").touch()
        assert not remove_task(feed.directory_fd, "task1234")
    assert {path.name for path in tmp_path.iterdir()} == {
        "task12345.out", "task123.err", "task1234.txt", "task1234.out",
    }  # fmt: skip
