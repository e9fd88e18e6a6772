"""How units are started: in a group of their own, inheriting nothing, not outliving the supervisor."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from services.hivectl.supervisor.children import start_ticks
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.spawn import UnitSpec, spawn
from shared.errors import Misconfigured
from tests.support.waiting import eventually
from tests.unit.hivectl.supervisor.tiny import RUNS, shell_spec

pytestmark = pytest.mark.anyio


async def test_an_exit_code_is_seen(tmp_path: Path) -> None:
    child = spawn(shell_spec(tmp_path, "exit 7"))
    with anyio.fail_after(5):
        status = await child.wait()
    assert (status.code, status.signal) == (7, None)
    assert child.ended.is_set()


async def test_the_signal_that_ended_it_is_seen(tmp_path: Path) -> None:
    child = spawn(shell_spec(tmp_path, "kill -KILL $$"))
    with anyio.fail_after(5):
        status = await child.wait()
    assert (status.code, status.signal) == (None, signal.SIGKILL)


async def test_without_pidfd_ends_are_seen_too(tmp_path: Path) -> None:
    child = spawn(shell_spec(tmp_path, "exit 5"))
    assert child._pidfd is not None
    os.close(child._pidfd)
    child._pidfd = None
    with anyio.fail_after(5):
        assert (await child.wait()).code == 5


async def test_a_kill_takes_the_whole_process_group(tmp_path: Path) -> None:
    child = spawn(shell_spec(tmp_path, "sleep 600 & echo $! > inner; wait"))
    inner = int(eventually((tmp_path / "inner").read_text, what="the inner process"))
    child.kill()
    with anyio.fail_after(5):
        await child.wait()
    eventually(lambda: start_ticks(inner) == 0, what="the inner process has ended")
    child.kill()


async def test_it_leads_a_process_group_so_that_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    child = spawn(shell_spec(tmp_path, RUNS))
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    child.kill()
    await child.wait()


async def test_it_inherits_the_listening_socket_and_nothing_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "secret").open("w") as other:
        os.set_inheritable(other.fileno(), False)
        script = "ls -l /proc/self/fd > fds; cat /proc/self/fd/0"
        child = spawn(shell_spec(tmp_path, script, inherited_fd=listener.fileno()))
        with anyio.fail_after(5):
            assert (await child.wait()).code == 0
        listing = (tmp_path / "fds").read_text()
        assert f" {listener.fileno()} -> socket:" in listing
        assert "secret" not in listing
        assert " 0 -> /dev/null" in listing


async def test_its_output_is_in_its_log_and_the_end_can_be_shown(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "tiny.log")
    log.path.write_text("of an earlier life\n")
    child = spawn(shell_spec(tmp_path, "echo out; echo err >&2; exit 1"))
    with anyio.fail_after(5):
        await child.wait()
    assert child.last_lines() == "out\nerr"
    assert log.path.read_text() == "of an earlier life\nout\nerr\n"


async def test_a_program_that_is_missing_says_so(tmp_path: Path) -> None:
    spec = shell_spec(tmp_path, "")
    child = spawn(replace(spec, argv=("/nowhere/program",)))
    with anyio.fail_after(5):
        assert (await child.wait()).code == 127
    assert child.last_lines() == "/nowhere/program: No such file or directory"


async def test_a_log_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    spec = shell_spec(tmp_path / "missing", "exit 0")
    with pytest.raises(Misconfigured, match=r"tiny cannot be started.*tiny\.log"):
        spawn(spec)


def test_a_unit_ends_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.hivectl.supervisor.tiny import shell_spec, RUNS\n"
        "from services.hivectl.supervisor.spawn import spawn\n"
        "print(spawn(shell_spec(Path(sys.argv[1]), RUNS)).pid, flush=True); sys.stdin.read()\n"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with supervisor:
        assert supervisor.stdout is not None
        unit = int(supervisor.stdout.readline())
        eventually(lambda: "running" in (tmp_path / "tiny.log").read_text(), what="the unit runs")
        supervisor.kill()
    eventually(lambda: start_ticks(unit) == 0, what="the unit has ended")


def test_our_own_units_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    spec = UnitSpec("broker", env={}, log=LogFile(tmp_path / "log"), cwd=tmp_path, module="services.broker")
    assert spec.command == (sys.executable, "-P", "-m", "services.broker")
