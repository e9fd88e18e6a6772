"""The fork server never runs old code, and never stands in the way: without it units start as programs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from services.hivectl.supervisor.fork_server.protocol import MAX_PACKET_BYTES
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.units import SURFACE_MODULES
from tests.unit.hivectl.supervisor.fork_server.conftest import Nursery

pytestmark = pytest.mark.anyio

SAYS = "import sitecustomize; print(sitecustomize.VERSION, flush=True)"


async def test_after_an_upgrade_in_place_a_unit_runs_the_new_code(nursery: Nursery) -> None:
    nursery.write_module("sitecustomize", "VERSION = 'old'")
    async with nursery.running():
        await (await nursery.fork(SAYS)).wait()
        first = nursery.server_process
        nursery.write_module("sitecustomize", "VERSION = 'new one'")
        after = await nursery.fork(SAYS)
        await after.wait()
        assert after.log.path.read_text() == "old\nnew one\n"
        assert first.status is not None
        assert nursery.server_process.pid != first.pid


async def test_a_removed_library_counts_as_changed(nursery: Nursery) -> None:
    path = nursery.write_module("sitecustomize", "VERSION = 'old'")
    async with nursery.running():
        first = nursery.server_process
        path.unlink()
        await (await nursery.fork("pass")).wait()
        assert first.status is not None


async def test_a_library_that_starts_a_thread_is_not_forked(nursery: Nursery) -> None:
    nursery.write_module(
        "sitecustomize",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    )
    async with nursery.running():
        assert await nursery.server.fork(nursery.spec("open('begun', 'w')")) is None
        assert not (nursery.directory / "begun").exists()


async def test_a_server_that_cannot_start_keeps_nobody_waiting(nursery: Nursery) -> None:
    nursery.write_module("sitecustomize", "raise SystemExit(1)")
    async with nursery.running():
        with anyio.fail_after(5):
            assert await nursery.server.fork(nursery.spec("pass")) is None


async def test_after_a_kill_of_the_server_there_is_another(nursery: Nursery) -> None:
    async with nursery.running():
        first = nursery.server_process
        first.kill()
        await first.ended.wait()
        # None until the new one is there, and never a wait without end.
        while (child := await nursery.server.fork(nursery.spec("pass"))) is None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        assert (await child.wait()).code == 0
        assert nursery.server_process.pid != first.pid


async def test_an_environment_too_large_for_a_request_is_left_to_exec(nursery: Nursery) -> None:
    async with nursery.running():
        assert await nursery.server.fork(nursery.spec("pass", LARGE="x" * MAX_PACKET_BYTES)) is None
        assert (await (await nursery.fork("pass")).wait()).code == 0


async def test_a_log_that_cannot_be_opened_is_left_to_exec_to_explain(nursery: Nursery) -> None:
    async with nursery.running():
        nowhere = LogFile(nursery.directory / "missing" / "tiny.log")
        assert await nursery.server.fork(replace(nursery.spec("pass"), log=nowhere)) is None
        assert (await (await nursery.fork("pass")).wait()).code == 0


async def test_orphans_are_reaped_and_known_children_are_left_to_who_waits(nursery: Nursery) -> None:
    orphan = "import os, sys\nif os.fork() == 0:\n    os.fork() or sys.exit()\n    sys.exit()"
    async with nursery.running(), anyio.create_task_group() as tasks:
        await tasks.start(nursery.reaper.run)
        child = await nursery.fork(f"{orphan}\nraise SystemExit(5)")
        with anyio.fail_after(10):
            assert (await child.wait()).code == 5
            while _list_zombies():  # noqa: ASYNC110 - the kernel tells of the end, not of the burial
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("package", SURFACE_MODULES.values())
def test_all_that_a_surface_imports_but_its_own_code_is_preloaded(tmp_path: Path, package: str) -> None:
    program = f"""
import sys
from pathlib import Path
from services.hivectl.supervisor.fork_server.code import preload
preload()
known = set(sys.modules)
from {package}.app import create_surface
from {package}.config import Settings
from pydantic import SecretStr
state = Path(sys.argv[1])
(state / "token").write_text("t" * 43)
create_surface(Settings(url="http://127.0.0.1:1", label="iris", token_file=state / "token", state_dir=state))
print([name for name in set(sys.modules) - known if not name.startswith("{package}")])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("HIVE_")},
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def _list_zombies() -> list[int]:
    zombies = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == os.getpid():
            zombies.append(int(entry.parent.name))
    return zombies
