"""A unit is kept running: started again with growing pauses, left down where that is right."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from services.hivectl.supervisor.keeper import Keeper, Outcome
from services.hivectl.supervisor.spawn import Child
from shared.errors import Misconfigured
from tests.support.waiting import eventually
from tests.unit.hivectl.supervisor.tiny import (
    QUICK,
    RUNS,
    Watcher,
    build_keeper,
    never_ready,
    ready_at_once,
)

pytestmark = pytest.mark.anyio


async def test_a_killed_unit_is_started_again(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, children = build_keeper(tmp_path, RUNS, watcher)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=5) is Outcome.READY
            os.kill(children[0].pid, signal.SIGKILL)
            told = await watcher.wait_for(3)
            await keeper.stop(grace_seconds=0)
    exits = [exit_ for _, exit_ in told]
    assert exits[0] is None
    assert exits[2] is None
    assert exits[1] is not None
    assert exits[1].status.signal == signal.SIGKILL
    assert exits[1].was_ready
    assert exits[1].restart_in == QUICK.first_seconds
    assert len(children) == 2


async def test_pauses_double_up_to_a_maximum(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, _ = build_keeper(tmp_path, "exit 1", watcher, probe=never_ready, persistent=True)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=5) is Outcome.ENDED
            told = await watcher.wait_for(4)
            await keeper.stop(grace_seconds=0)
    assert [exit_.restart_in for _, exit_ in told if exit_] == [0.01, 0.02, 0.04, 0.04]


async def test_a_unit_that_never_got_ready_is_not_tried_again_unless_asked(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, children = build_keeper(tmp_path, "echo no such thing; exit 1", watcher, probe=never_ready)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=5) is Outcome.ENDED
            assert not keeper.alive
    assert len(children) == 1
    assert keeper.explain(5) == ("tiny exited with code 1 before it was ready; it logged:\nno such thing")


async def test_bad_settings_are_not_tried_again(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, children = build_keeper(tmp_path, "exit 3", watcher, probe=never_ready, persistent=True)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=5) is Outcome.ENDED
    assert len(children) == 1
    assert keeper.last_exit is not None
    assert keeper.last_exit.restart_in is None


async def test_a_slow_unit_goes_on_starting(tmp_path: Path) -> None:
    watcher = Watcher()
    release = anyio.Event()
    keeper, _ = build_keeper(tmp_path, RUNS, watcher, probe=release.wait)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=0.01) is Outcome.TOO_SLOW
            release.set()
            await watcher.wait_for(1)
            assert keeper.ready
            await keeper.stop(grace_seconds=0)


async def test_a_stop_asks_first_and_tells_nobody(tmp_path: Path) -> None:
    watcher = Watcher()
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    keeper, children = build_keeper(tmp_path, script, watcher)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            await keeper.start(tasks, timeout_seconds=5)
            eventually(lambda: "up" in children[0].last_lines(), what="the trap is set")
            await keeper.stop(grace_seconds=5)
    assert children[0].last_lines() == "up\nasked"
    assert watcher.told == [("tiny", None)]
    assert not keeper.alive


async def test_who_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, children = build_keeper(tmp_path, "trap '' TERM; echo up; while :; do sleep 0.05; done", watcher)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            await keeper.start(tasks, timeout_seconds=5)
            eventually(lambda: "up" in children[0].last_lines(), what="the trap is set")
            await keeper.stop(grace_seconds=0.05)
    assert children[0].status is not None
    assert children[0].status.signal == signal.SIGKILL


async def test_a_stop_during_a_pause_ends_it(tmp_path: Path) -> None:
    watcher = Watcher()
    keeper, children = build_keeper(tmp_path, "exit 1", watcher, probe=never_ready, persistent=True)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            await keeper.start(tasks, timeout_seconds=5)
            await keeper.stop(grace_seconds=100)
    assert all(child.status is not None for child in children)


async def test_what_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    watcher = Watcher()
    _, children = build_keeper(tmp_path, RUNS, watcher)
    real, _ = build_keeper(tmp_path, RUNS, watcher)
    attempts = 0

    async def launch() -> Child:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise Misconfigured("no log directory")
        return await real._launch()

    keeper = Keeper(
        "tiny", launch=launch, probe=ready_at_once, listener=watcher, persistent=True, pauses=QUICK
    )
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await keeper.start(tasks, timeout_seconds=5) is Outcome.ENDED
            told = await watcher.wait_for(3)
            await keeper.stop(grace_seconds=0)
    assert not children
    assert [exit_.last_lines if exit_ else "ready" for _, exit_ in told] == ["no log directory"] * 2 + [
        "ready"
    ]
