"""A forked unit is to the supervisor, and to itself, what a started program is."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from services.hivectl.supervisor.children import start_ticks
from tests.support.waiting import eventually
from tests.unit.hivectl.supervisor.fork_server.conftest import Nursery

pytestmark = pytest.mark.anyio

RUNS = "import signal; print('running', flush=True); signal.pause()"
TELLS = """
import json, os, sys, gc
from pathlib import Path
def where(fd):
    return os.readlink(f"/proc/self/fd/{fd}")
descriptors = {fd: where(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")}
Path("told.json").write_text(json.dumps({
    "name": __name__, "argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "fds": descriptors,
    "parent": os.getppid(), "group": os.getpgid(0), "pid": os.getpid(), "gc": gc.isenabled(),
    "title": Path("/proc/self/cmdline").read_text().strip("\\0"),
}))
"""


async def test_it_is_a_child_of_the_supervisor_with_what_the_spec_says(nursery: Nursery) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with nursery.running():
            child = await nursery.fork(TELLS, inherited_fd=listener.fileno(), HIVE_LABEL="iris")
            status = await child.wait()
            told = json.loads((nursery.directory / "told.json").read_bytes())
            assert (status.code, child.last_lines()) == (0, "")
            assert told["name"] == "__main__"
            assert (told["pid"], told["parent"], told["group"]) == (child.pid, os.getpid(), child.pid)
            assert told["env"] == {"HIVE_LABEL": "iris"}
            assert told["cwd"] == str(nursery.directory)
            assert told["argv"] == [str(nursery.modules / "tiny_unit.py")]
            assert told["title"] == "tiny: tiny_unit"
            assert told["gc"] is True
            log = str(nursery.directory / "tiny.log")
            fds = {int(fd): path for fd, path in told["fds"].items()}
            assert fds.pop(listener.fileno()).startswith("socket:")
            assert fds == {0: os.devnull, 1: log, 2: log}


async def test_its_exit_code_and_the_signal_that_ended_it_are_seen(nursery: Nursery) -> None:
    async with nursery.running():
        status = await (await nursery.fork("raise SystemExit(7)")).wait()
        assert (status.code, status.signal) == (7, None)
        child = await nursery.fork(RUNS)
        child.terminate()
        status = await child.wait()
        assert (status.code, status.signal) == (None, signal.SIGTERM)
        child.kill()


async def test_what_went_wrong_is_in_its_log(nursery: Nursery) -> None:
    async with nursery.running():
        child = await nursery.fork("print('of this life', flush=True); raise ValueError('a bug')")
        assert (await child.wait()).code == 1
        assert child.last_lines().startswith("of this life\nTraceback")
        assert child.last_lines().endswith("ValueError: a bug")


async def test_it_outlives_the_server(nursery: Nursery) -> None:
    async with nursery.running():
        child = await nursery.fork(RUNS)
        eventually(lambda: "running" in (nursery.directory / "tiny.log").read_text(), what="it runs")
        nursery.server_process.kill()
        await nursery.server_process.ended.wait()
        assert start_ticks(child.pid) != 0
        assert child.status is None


async def test_what_nobody_adopts_never_begins(nursery: Nursery) -> None:
    def refuse(_child: object) -> None:
        raise RuntimeError("a bug")

    async with nursery.running():
        adopt, nursery.server._adopt = nursery.server._adopt, refuse
        with pytest.raises(RuntimeError, match="a bug"):
            await nursery.server.fork(nursery.spec("open('begun', 'w')"))
        nursery.server._adopt = adopt
        ended = os.waitid(os.P_ALL, 0, os.WEXITED)  # noqa: ASYNC222 - it ends at once
        assert ended is not None
        assert ended.si_status == 128 + signal.SIGTERM
        assert not (nursery.directory / "begun").exists()


async def test_two_units_share_no_randomness(nursery: Nursery) -> None:
    draws = """
import random, secrets, uuid
from pathlib import Path
from shared.runtime.ids import new_ulid
with Path("drawn").open("a") as file:
    print(random.random(), secrets.token_hex(8), uuid.uuid4(), new_ulid()[10:], sep="\\n", file=file)
"""
    async with nursery.running():
        for _ in range(2):
            assert (await (await nursery.fork(draws)).wait()).code == 0
    drawn = (nursery.directory / "drawn").read_text().split()
    assert len(set(drawn)) == len(drawn) == 8


def test_it_ends_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    program = f"""
import sys, anyio
from pathlib import Path
from services.hivectl.supervisor.orphans import become_subreaper
from tests.unit.hivectl.supervisor.fork_server.conftest import Nursery
async def main():
    nursery = Nursery(Path(sys.argv[1]))
    async with nursery.running():
        child = await nursery.fork({RUNS!r})
        print("pids", child.pid, nursery.server_process.pid, flush=True)
        await anyio.sleep_forever()
become_subreaper()
anyio.run(main)
"""
    supervisor = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with supervisor:
        assert supervisor.stdout is not None
        pids = next(line for line in supervisor.stdout if line.startswith(b"pids"))
        unit, server = map(int, pids.split()[1:])
        eventually(lambda: "running" in (tmp_path / "tiny.log").read_text(), what="the unit runs")
        supervisor.kill()
    eventually(lambda: start_ticks(unit) == 0 == start_ticks(server), what="both have ended")
