"""Jobs of an agent, with real processes: what is done, what is reported, what repeating it does."""

import os
import signal
import socket
from pathlib import Path

import anyio
import anyio.abc
import pytest

from services.hivectl.spool import EventSpool
from shared.wire.lifecycle import JobKind
from tests.unit.hivectl.supervisor.scene import IRIS, Scene

pytestmark = pytest.mark.anyio


async def test_a_start_is_reported_once_ready_and_repeating_it_changes_nothing(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            await scene.do(JobKind.START)
            assert scene.told() == ["started", "job_done", "job_done"]
            assert {one.event.agent_id for one in spool.list_oldest(9)} == {IRIS.agent_id}
            assert [one.event.job_id for one in spool.list_oldest(9)] == [None, 1, 2]
            assert len(scene.units.children) == 1
            assert scene.units.is_listening()
            await scene.runner.shut_down()


async def test_a_stop_closes_the_sockets_and_repeating_it_changes_nothing(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            await scene.do(JobKind.STOP)
            await scene.do(JobKind.STOP)
    assert scene.told() == ["started", "job_done", "stopped", "job_done", "job_done"]
    assert not scene.units.is_listening()
    assert scene.units.children[0].status is not None


async def test_a_kill_does_not_ask(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.script = "trap '' TERM; while :; do sleep 0.05; done"
            await scene.do(JobKind.START)
            await scene.do(JobKind.KILL)
    assert scene.told() == ["started", "job_done", "killed", "job_done"]
    assert scene.units.children[0].status is not None
    assert scene.units.children[0].status.signal == signal.SIGKILL


async def test_a_restart_keeps_the_sockets_open(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            with socket.create_connection(("127.0.0.1", scene.units.port)) as waiting:
                await scene.do(JobKind.RESTART)
                waiting.sendall(b"still here")
            assert scene.told()[2:] == ["stopped", "started", "job_done"]
            assert len(scene.units.children) == 2
            await scene.runner.shut_down()


async def test_a_crash_is_reported_with_its_signal_and_the_agent_started_again(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            os.kill(scene.units.children[0].pid, signal.SIGSEGV)
            await scene.until_told("started", "job_done", "crashed", "started")
            assert spool.list_oldest(9)[2].event.exit_signal == signal.SIGSEGV
            assert scene.units.is_listening()
            await scene.runner.shut_down()
    assert scene.told()[-1] == "stopped"


async def test_a_port_that_is_taken_fails_the_job(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            with socket.create_server(("127.0.0.1", scene.units.port)):
                await scene.do(JobKind.START)
    event = spool.list_oldest(1)[0].event
    assert event.kind == "job_failed"
    assert event.error is not None
    assert "--port-base" in event.error


async def test_a_destruction_is_the_only_thing_reported_of_a_running_agent(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            await scene.do(JobKind.START)
            await scene.do(JobKind.DESTROY)
            await scene.do(JobKind.DESTROY)
    assert scene.told()[2:] == ["destroyed", "job_done", "destroyed", "job_done"]
    assert scene.put_away == [IRIS, IRIS]
    assert not scene.units.is_listening()


async def test_an_agent_whose_files_cannot_be_moved_is_not_destroyed(
    tmp_path: Path, spool: EventSpool
) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.refuses_to_go = True
            await scene.do(JobKind.START)
            await scene.do(JobKind.DESTROY)
    assert scene.told()[2:] == ["killed", "job_failed"]


async def test_jobs_of_one_agent_run_one_after_the_other(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            async with anyio.create_task_group() as jobs:
                for kind in (JobKind.START, JobKind.STOP, JobKind.START, JobKind.STOP):
                    jobs.start_soon(scene.do, kind)
    assert [kind for kind in scene.told() if kind != "job_done"] == ["started", "stopped"] * 2


async def test_a_hive_that_goes_down_at_once_reports_a_stop_too(tmp_path: Path, spool: EventSpool) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            scene = Scene(tmp_path, spool, tasks)
            scene.units.script = "trap '' TERM; while :; do sleep 0.05; done"
            await scene.do(JobKind.START)
            await scene.runner.shut_down(at_once=True)
            await scene.runner.shut_down(at_once=True)
    assert scene.told()[2:] == ["stopped"]
