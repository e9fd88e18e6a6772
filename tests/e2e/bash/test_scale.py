"""Many tasks at once, and many that have been: nothing is lost, and nothing becomes slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from shared.tasks.model import TaskState, build_end
from shared.tasks.registry import TaskRegistry
from tests.support.bash import BashSurface, id_of, running_bash, state_of
from tests.support.waiting import eventually

ENDED = 10_000
ROUNDS = 15
# What a full registry may cost, on a machine that does other things as well.
RATIO, SLACK_SECONDS = 2.0, 0.02


@pytest.mark.requirement("bash.burst")
def test_two_hundred_tasks_at_once_all_run_thirty_two_at_a_time() -> None:
    # Each notes how many run beside it.
    cmd = "mkdir live/{code}; ls live | wc -l >> seen; sleep 0.1; rmdir live/{code}; exit {code}"
    with running_bash() as bash, ThreadPoolExecutor(16) as threads:
        (bash.state_dir / "live").mkdir()
        tasks = list(threads.map(lambda code: bash.start(cmd.format(code=code)), range(200)))
        ends = list(threads.map(bash.end, tasks))

        for code, end in enumerate(ends):
            assert end.startswith(f"done, exit code {code},")
        beside = [int(line) for line in (bash.state_dir / "seen").read_text().split()]
        assert len(beside) == 200
        assert 1 < max(beside) <= 32
        assert bash.list().endswith("and 180 earlier tasks")


def _fill(bash: BashSurface) -> None:
    """Ended tasks as years of work would leave them; half of them were never looked at."""
    registry = TaskRegistry(bash.data_dir / "bash-tasks.sqlite")
    for number in range(ENDED):
        task = f"ended{number:07}"
        registry.add(
            task, f"make part-{number}", request="{}", is_pending=False, boot="", now=int(time.time())
        )
        registry.finish(task, build_end(TaskState.DONE, None, started_at=None), kept_bytes=100)
        if number % 2:
            registry.mark_shown(task)
    registry.close()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.mark.requirement("bash.scale")
def test_ten_thousand_ended_tasks_slow_nothing() -> None:
    with running_bash() as empty, running_bash() as full:
        full.unit.kill()
        _fill(full)
        starts = {bash: _seconds(bash.unit.start) for bash in (full,)} | {empty: _seconds(empty.unit.restart)}
        known = {bash: id_of(bash.run("true")) for bash in (empty, full)}
        works: dict[str, Callable[[BashSurface], object]] = {
            "run": lambda bash: bash.run("true"),
            "status": lambda bash: bash.status(known[bash]),
            "list": lambda bash: bash.list(),
        }
        for name, work in works.items():
            # By turns, so that whatever else the machine does meets both.
            times = [(_seconds(lambda: work(empty)), _seconds(lambda: work(full))) for _ in range(ROUNDS)]  # noqa: B023
            few, many = (statistics.median(column) for column in zip(*times, strict=True))
            assert many <= few * RATIO + SLACK_SECONDS, (name, few, many)
        assert starts[full] <= starts[empty] * RATIO + 0.5, starts
        assert f"and {ENDED + ROUNDS + 1 - 20} earlier tasks" in full.list()
        assert "done" in state_of(full.status("ended0000000"))


@pytest.mark.requirement("bash.quota")
def test_read_results_make_room_oldest_first_and_unread_ones_stay() -> None:
    with running_bash(
        HIVE_BASH_MAX_OUTPUT_BYTES=str(1 << 20), HIVE_BASH_OUTPUT_QUOTA_BYTES=str(2 << 20)
    ) as bash:
        write = "head -c 100000 /dev/zero"
        unread = bash.start(write)
        bash.wait_for_state(unread, "done")
        read = [id_of(bash.run(write, wait_seconds=20)) for _ in range(14)]

        assert "Its output was removed: newer tasks needed the room" in bash.status(read[0])
        assert "removed" in bash.status(read[0], stream="out")
        assert "100000 bytes" in bash.status(read[-1])
        assert len(bash.output(unread)) == 100_000
        kept = sum(file.stat().st_size for file in bash.output_dir.iterdir())
        assert kept <= 2 << 20


def _is_swept(bash: BashSurface, task: str) -> bool:
    return "Its output was removed: it was kept long enough" in bash.status(task)


@pytest.mark.requirement("bash.retention")
def test_what_was_kept_long_enough_goes_and_says_so() -> None:
    day = 86_400
    with running_bash(HIVE_BASH_RETENTION_DAYS="1") as bash:
        old, unread, older = (bash.start(f"echo {name}") for name in ("old", "unread", "older"))
        for task in (old, unread, older):
            bash.wait_for_state(task, "done")
        bash.status(old)
        bash.unit.kill()
        registry = TaskRegistry(bash.data_dir / "bash-tasks.sqlite")
        for task, days in ((old, 2), (unread, 2), (older, 5)):
            registry._db.execute("UPDATE tasks SET ended_at = ended_at - ? WHERE id = ?", (days * day, task))
        registry.close()
        bash.unit.start()

        for task in (old, older):
            eventually(partial(_is_swept, bash, task))
            assert not list(bash.output_dir.glob(f"{task}*"))
        assert "unread" in bash.status(unread)
