"""Jobs that another job, or the end of the hive, cuts short: each transition is told once, and truly."""

from pathlib import Path

import anyio
import pytest

from services.hivectl.spool import EventSpool
from shared.wire.lifecycle import JobKind
from tests.unit.hivectl.supervisor.scene import Scene, start_deaf
from tests.unit.hivectl.supervisor.tiny import never_ready

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("notices.cut-short")]


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (JobKind.STOP, JobKind.KILL, ["started", "job_done", "killed", "job_done", "job_done"]),
        (JobKind.RESTART, JobKind.KILL, ["started", "job_done", "killed", "job_failed", "job_done"]),
        (
            JobKind.STOP,
            JobKind.DESTROY,
            ["started", "job_done", "job_done", "destroyed", "job_done"],
        ),
        (
            JobKind.RESTART,
            JobKind.DESTROY,
            ["started", "job_done", "job_failed", "destroyed", "job_done"],
        ),
    ],
)
async def test_a_kill_does_not_wait_for_a_stop_that_hangs(
    tmp_path: Path, spool: EventSpool, first: JobKind, then: JobKind, told: list[str]
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = await start_deaf(tmp_path, spool, tasks)
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, first)
                await anyio.wait_all_tasks_blocked()
                jobs.start_soon(scene.do, then)
            assert scene.told() == told
            assert not scene.units.is_listening()


async def test_a_kill_does_not_wait_for_a_start_that_hangs(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks, patience_seconds=600)
            scene.units.probe = never_ready
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, JobKind.START)
                await anyio.wait_all_tasks_blocked()
                jobs.start_soon(scene.do, JobKind.KILL)
            assert scene.told() == ["job_failed", "job_done"]
            assert not scene.units.is_listening()


async def test_a_kill_does_not_wait_for_a_restart_that_has_hardly_begun(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = await start_deaf(tmp_path, spool, tasks)
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, JobKind.RESTART)
                jobs.start_soon(scene.do, JobKind.KILL)
            assert scene.told()[2:] == ["killed", "job_failed", "job_done"]
            assert not scene.units.is_listening()


@pytest.mark.parametrize("instant", ["stopped", "launching"])
async def test_a_kill_between_the_stop_and_the_start_of_a_restart_cuts_in(
    tmp_path: Path, spool: EventSpool, instant: str
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks, patience_seconds=600)
            await scene.do(JobKind.START)
            scene.units.probe = never_ready
            launching, launch = anyio.Event(), anyio.Event()

            async def wait_to_launch() -> None:
                launching.set()
                await launch.wait()

            def kill_once_stopped() -> None:
                if scene.told()[-1] == "stopped":
                    jobs.start_soon(scene.do, JobKind.KILL)

            async with anyio.create_task_group() as jobs:
                if instant == "stopped":
                    spool.on_append = kill_once_stopped
                    jobs.start_soon(scene.do, JobKind.RESTART)
                else:
                    scene.units.before_launch = wait_to_launch
                    jobs.start_soon(scene.do, JobKind.RESTART)
                    await launching.wait()
                    jobs.start_soon(scene.do, JobKind.KILL)
                    await anyio.wait_all_tasks_blocked()
                    launch.set()
            assert scene.told()[2:] == ["stopped", "job_failed", "job_done"]
            assert "ended at once" in str(spool.list_oldest(100)[-2].event.error)
            assert not scene.units.is_listening()


async def test_a_destruction_that_fails_owns_up_to_the_end_that_it_hurried(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = await start_deaf(tmp_path, spool, tasks)
            scene.refuses_to_go = True
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, JobKind.RESTART)
                await anyio.wait_all_tasks_blocked()
                jobs.start_soon(scene.do, JobKind.DESTROY)
            assert scene.told()[2:] == ["job_failed", "killed", "job_failed"]


@pytest.mark.parametrize(
    ("kind", "end"),
    [(JobKind.STOP, "job_done"), (JobKind.RESTART, "job_failed"), (JobKind.START, "job_failed")],
)
async def test_a_job_that_the_end_of_the_hive_cuts_off_ends_with_it(
    tmp_path: Path, spool: EventSpool, kind: JobKind, end: str
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = await start_deaf(tmp_path, spool, tasks)
            if kind is JobKind.START:
                await scene.do(JobKind.KILL)
                scene.units.probe = never_ready
            before = len(scene.told())
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, kind)
                await anyio.wait_all_tasks_blocked()
                jobs.cancel_scope.cancel()
            await scene.runner.shut_down(at_once=True)
            await scene.runner.shut_down(at_once=True)
            stopped = [] if kind is JobKind.START else ["stopped"]
            assert scene.told()[before:] == [*stopped, end]
            error = spool.list_oldest(100)[-1].event.error
            assert error == (None if end == "job_done" else RUNS_NEXT_TIME)


RUNS_NEXT_TIME = "the hive went down meanwhile; the next `hivectl up` starts iris"


async def test_a_destruction_that_the_end_of_the_hive_cuts_off_is_left_to_the_next_one(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = await start_deaf(tmp_path, spool, tasks)
            async with anyio.create_task_group() as jobs:
                jobs.start_soon(scene.do, JobKind.STOP)
                await anyio.wait_all_tasks_blocked()
                jobs.start_soon(scene.do, JobKind.DESTROY)
                jobs.cancel_scope.cancel()
            await scene.runner.shut_down(at_once=True)
            # How the agent ended is told once, and the job stays open.
            assert scene.told()[2:] in (["killed", "job_done"], ["stopped", "job_done"])
            assert scene.put_away == []
        async with anyio.create_task_group() as tasks:
            next_one = Scene(tmp_path, spool, tasks)
            await next_one.do(JobKind.DESTROY, is_old=True)
            assert next_one.told()[-2:] == ["destroyed", "job_done"]


async def test_a_restart_from_before_this_supervisor_is_fulfilled_by_the_start(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.runner.bring_up()
            await scene.do(JobKind.RESTART, is_old=True)
            assert scene.told() == ["started", "job_done"]
            await scene.runner.shut_down()


async def test_a_start_by_a_job_is_left_alone_when_the_hive_comes_to_that_agent(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.RESTART, is_old=True)
            await scene.runner.bring_up()
            assert scene.told() == ["started", "job_done"]
            assert len(scene.units.children) == 1
            await scene.runner.shut_down()
