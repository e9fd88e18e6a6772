"""An agent of two surfaces: when it counts as started, what the end of one means, and what ends its tasks."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_runner import TASK_GRACE_SECONDS
from shared.wire.lifecycle import JobKind
from tests.unit.hivectl.supervisor.scene import Scene
from tests.unit.hivectl.supervisor.tiny import RUNS

pytestmark = pytest.mark.anyio

BAD_SETTINGS = "echo bad settings; exit 3"


@pytest.mark.requirement("surfaces.several")
async def test_it_has_started_when_all_surfaces_answer(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            asked, answers = anyio.Event(), anyio.Event()

            async def probe() -> None:
                asked.set()
                await answers.wait()

            scene.units.second_script, scene.units.second_probe = RUNS, probe
            tasks.start_soon(scene.do, JobKind.START)
            await asked.wait()
            assert scene.told() == []
            answers.set()
            await scene.until_told("started", "job_done")
            await scene.runner.shut_down()


@pytest.mark.requirement("surfaces.several")
async def test_the_end_of_another_surface_is_no_crash_and_it_starts_again(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            answered = anyio.Event()

            async def probe() -> None:
                if len(scene.units.seconds) == 2:
                    answered.set()

            scene.units.second_script, scene.units.second_probe = RUNS, probe
            await scene.do(JobKind.START)
            os.kill(scene.units.seconds[0].pid, signal.SIGKILL)
            await answered.wait()
            assert scene.told() == ["started", "job_done"]
            assert scene.ended_tasks == []
            await scene.runner.shut_down()


async def test_a_surface_that_stays_down_fails_the_job_and_not_the_agent(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.second_script = BAD_SETTINGS

            async def never() -> None:
                await anyio.sleep_forever()

            scene.units.second_probe = never
            await scene.do(JobKind.START)
            assert scene.told() == ["started", "job_failed"]
            assert spool.list_oldest(9)[-1].event.error == (
                "second exited with code 3 before it was ready; it logged:\nbad settings\n"
                "iris runs without it; once that is mended, `hivectl agent restart iris` brings it up"
            )
            os.kill(scene.units.children[0].pid, signal.SIGKILL)
            await scene.until_told("started", "job_failed", "crashed", "started")
            await scene.runner.shut_down()


@pytest.mark.requirement("tasks.end-with-agent")
@pytest.mark.parametrize(
    ("kind", "reason", "grace_seconds"),
    [
        (JobKind.STOP, "the agent was stopped", 2.0),
        (JobKind.KILL, "the agent was killed", 0.0),
        (JobKind.DESTROY, "the agent was destroyed", 0.0),
    ],
)
async def test_what_ends_the_agent_ends_its_tasks(
    tmp_path: Path, spool: EventSpool, kind: JobKind, reason: str, grace_seconds: float
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            await scene.do(kind)
    assert scene.ended_tasks == [(reason, grace_seconds)]
    assert grace_seconds <= TASK_GRACE_SECONDS


@pytest.mark.requirement("tasks.end-with-agent")
async def test_a_restart_and_a_crash_leave_tasks_alone_and_the_end_of_the_hive_ends_them(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            await scene.do(JobKind.RESTART)
            os.kill(scene.units.children[-1].pid, signal.SIGKILL)
            await scene.until_told(
                "started", "job_done", "stopped", "started", "job_done", "crashed", "started"
            )
            assert scene.ended_tasks == []
            await scene.runner.shut_down()
    assert scene.ended_tasks == [("the hive went down", 2.0)]
