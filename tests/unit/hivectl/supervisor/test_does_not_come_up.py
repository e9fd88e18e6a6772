"""An agent that does not come up: who asked is told why, and as it is wanted it is tried on and on."""

from pathlib import Path

import anyio
import pytest

from services.hivectl.spool import EventSpool
from shared.errors import HiveError
from shared.wire.lifecycle import JobKind
from tests.unit.hivectl.supervisor.scene import Scene
from tests.unit.hivectl.supervisor.tiny import RUNS, never_ready

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("restart.tried-on")]

FAILS = "echo no luck; exit 1"
# Ends at once until the test says that it may come up.
FAILS_FIRST = "test -e may || { echo no luck; exit 1; }; : > up; exec sleep 600"
REASON = "tiny exited with code 1 before it was ready; it logged:\nno luck\n"
GOES_ON = f"{REASON}iris is tried again until it comes up; `hivectl agent stop iris` ends that"
BAD_SETTINGS = "echo bad settings; exit 3"
STAYS_DOWN = (
    "tiny exited with code 3 before it was ready; it logged:\nbad settings\n"
    "iris stays down: mend that, then `hivectl agent start iris`"
)


def fail_first(scene: Scene, directory: Path) -> None:
    """Have its next process end before it is ready, and so on until `may` is there."""

    async def ready_when_up() -> None:
        while not (directory / "up").exists():  # noqa: ASYNC110 - the unit is another process
            await anyio.sleep(0.01)

    scene.units.script, scene.units.probe = FAILS_FIRST, ready_when_up


async def test_a_restart_whose_new_process_dies_keeps_the_socket_and_is_told_when_it_runs(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            fail_first(scene, tmp_path)
            await scene.do(JobKind.RESTART)
            assert scene.told()[2:] == ["stopped", "job_failed"]
            assert spool.list_oldest(9)[-1].event.error == GOES_ON
            assert scene.units.is_listening()
            (tmp_path / "may").touch()
            await scene.until_told("started", "job_done", "stopped", "job_failed", "started")
            await scene.do(JobKind.STOP)
            assert scene.told()[5:] == ["stopped", "job_done"]


async def test_a_start_that_fails_is_tried_on_too(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            fail_first(scene, tmp_path)
            await scene.do(JobKind.START)
            assert scene.units.is_listening()
            (tmp_path / "may").touch()
            await scene.until_told("job_failed", "started")
            await scene.runner.shut_down()


async def test_one_that_is_too_slow_for_its_job_is_told_when_it_is_ready(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks, patience_seconds=0.1)
            ready = anyio.Event()
            scene.units.probe = ready.wait
            await scene.do(JobKind.START)
            assert scene.told() == ["job_failed"]
            assert "was not ready within" in str(spool.list_oldest(9)[-1].event.error)
            ready.set()
            await scene.until_told("job_failed", "started")
            assert len(scene.units.children) == 1
            await scene.runner.shut_down()


async def test_an_agent_that_the_hive_starts_is_tried_until_it_comes_up(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            fail_first(scene, tmp_path)
            with pytest.raises(HiveError) as failed:
                await scene.runner.bring_up()
            assert failed.value.message == GOES_ON
            (tmp_path / "may").touch()
            await scene.until_told("started")
            await scene.runner.shut_down()


@pytest.mark.parametrize("kind", [JobKind.STOP, JobKind.KILL, JobKind.DESTROY])
async def test_what_ends_an_agent_ends_the_trying(tmp_path: Path, spool: EventSpool, kind: JobKind) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.script, scene.units.probe = FAILS, never_ready
            await scene.do(JobKind.START)
            await scene.do(kind)
            destroyed = ["destroyed"] if kind is JobKind.DESTROY else []
            # The keeper of its units is gone: there is nothing left to wait for here.
    assert scene.told() == ["job_failed", *destroyed, "job_done"]
    assert not scene.units.is_listening()


async def test_a_start_of_one_that_is_being_tried_begins_at_once(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            fail_first(scene, tmp_path)
            await scene.do(JobKind.START)
            (tmp_path / "may").touch()
            await scene.do(JobKind.START)
            assert [kind for kind in scene.told() if kind != "job_done"] == ["job_failed", "started"]
            await scene.runner.shut_down()


@pytest.mark.parametrize("kind", [JobKind.START, JobKind.RESTART])
async def test_one_with_bad_settings_stays_down_and_its_port_is_refused(
    tmp_path: Path, spool: EventSpool, kind: JobKind
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            if kind is JobKind.RESTART:
                await scene.do(JobKind.START)
            scene.units.script, scene.units.probe = BAD_SETTINGS, never_ready
            await scene.do(kind)
            # Were it tried again, its keeper would be waited for here.
    assert scene.told()[-1] == "job_failed"
    assert spool.list_oldest(9)[-1].event.error == STAYS_DOWN
    assert not scene.units.is_listening()


async def test_one_that_runs_and_finds_its_settings_bad_has_crashed_and_its_port_is_refused(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.script = "while test ! -e go; do sleep 0.05; done; exit 3"
            await scene.do(JobKind.START)
            (tmp_path / "go").touch()
    assert scene.told() == ["started", "job_done", "crashed"]
    assert not scene.units.is_listening()


async def test_a_start_after_the_settings_were_mended_brings_it_up(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.script, scene.units.probe = BAD_SETTINGS, never_ready
            await scene.do(JobKind.START)
            fail_first(scene, tmp_path)
            scene.units.script = f": > up; {RUNS}"
            await scene.do(JobKind.START)
            assert scene.told() == ["job_failed", "started", "job_done"]
            assert scene.units.is_listening()
            await scene.runner.shut_down()
