"""The supervisor's own small files: logs, the lock, the register of children; sockets and environments."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from services.hivectl.supervisor.children import ChildRegister, end_leftovers, list_running, signal_child
from services.hivectl.supervisor.environment import broker_settings, surface_settings, unit_environment
from services.hivectl.supervisor.instance import acquire, find_instance, is_running, lock_path
from services.hivectl.supervisor.listeners import Listeners, check_port_free
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.spawn import spawn
from shared.errors import Conflict, Misconfigured
from shared.layout import HiveLayout, PortPlan
from tests.support.ports import free_port
from tests.unit.hivectl.supervisor.tiny import RUNS, shell_spec


@pytest.fixture
def layout(tmp_path: Path) -> HiveLayout:
    layout = HiveLayout(tmp_path)
    layout.run_dir.mkdir()
    return layout


def test_a_full_log_moves_on_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "unit.log", max_bytes=100, kept=2)
    with log.open() as writer:
        for number in range(4):
            writer.write(b"%d" % number * 120 + b"\n")
            assert log.rotate()
        writer.write(b"after\n")
        assert not log.rotate()
    assert log.path.read_text() == "after\n"
    assert (tmp_path / "unit.log.1").read_text() == "3" * 120 + "\n"
    assert (tmp_path / "unit.log.2").read_text() == "2" * 120 + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unit.log", "unit.log.1", "unit.log.2"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_tail_is_of_whole_lines_of_this_life(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "unit.log")
    assert log.tail() == ""
    log.path.write_text("old\n" + "".join(f"line {number}\n" for number in range(100)))
    assert log.tail(limit_bytes=20) == "line 98\nline 99"
    assert log.tail(start=4, limit_bytes=10_000).startswith("line 0\n")
    log.path.write_text("rotated\n")
    assert log.tail(start=500) == "rotated"


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "unit.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        LogFile(tmp_path / "unit.log").open()


def test_there_is_one_supervisor_and_it_is_known(layout: HiveLayout) -> None:
    assert not is_running(layout)
    lock = acquire(layout)
    assert is_running(layout)
    assert find_instance(layout) is None
    lock.describe({"pid": 41, "started_at": 7, "port_base": 7000})
    instance = find_instance(layout)
    assert instance is not None
    assert (instance.pid, instance.started_at, instance.stopping) == (41, 7, False)
    lock.describe({"pid": 41, "started_at": 7, "stopping": True})
    instance = find_instance(layout)
    assert instance is not None
    assert instance.stopping
    with pytest.raises(Conflict):
        acquire(layout)
    lock.release()
    assert not is_running(layout)
    assert find_instance(layout) is None


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, sys.argv[2].encode())
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(layout: HiveLayout, content: str, *, name: str = "hivectl") -> Iterator[int]:
    """Somebody else holds the lock, under a name, and has written this into it."""
    lock_path(layout).touch(0o600)
    command = [sys.executable, "-c", HOLD, str(lock_path(layout)), content, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        "null",
        "[" * 50_000,
        "{}",
        '{"pid": "x", "started_at": 1}',
        '{"pid": 1e999, "started_at": 1}',
    ]
    + [f'{{"pid": {pid}, "started_at": 1}}' for pid in (-1, 0, 1, 2, 99_999_999)],
    ids=lambda text: text[:20],
)
def test_of_a_damaged_lock_the_kernel_says_who_holds_it(layout: HiveLayout, content: str) -> None:
    with held_by_another(layout, content) as pid:
        instance = find_instance(layout)
        assert instance is not None
        assert instance.pid == pid


def test_a_damaged_lock_of_nobody_we_can_see_says_what_to_do(layout: HiveLayout) -> None:
    with held_by_another(layout, "no JSON", name="foreign"), pytest.raises(Misconfigured) as caught:
        find_instance(layout)
    assert caught.value.code == "lock_damaged"
    assert f"fuser {lock_path(layout)}" in caught.value.message


def test_a_lock_that_is_held_and_not_yet_written_is_waited_for(layout: HiveLayout) -> None:
    with held_by_another(layout, ""):
        assert find_instance(layout) is None


def test_a_child_does_not_hold_the_lock(layout: HiveLayout) -> None:
    lock = acquire(layout)
    child = spawn(shell_spec(layout.root, RUNS))
    lock.release()
    assert not is_running(layout)
    child.kill()
    child.reap()


def forget_supervisor(layout: HiveLayout) -> None:
    """As if another process, which is gone, had written the register."""
    path = layout.run_dir / "children.json"
    rows = json.loads(path.read_bytes())
    path.write_text(json.dumps([row | {"supervisor_ticks": 1} for row in rows]))


def test_processes_of_a_supervisor_that_runs_are_left_alone(layout: HiveLayout) -> None:
    child = spawn(shell_spec(layout.root, RUNS))
    ChildRegister(layout).add(child)
    with pytest.raises(Conflict, match=rf"`kill {os.getpid()}` stops it") as caught:
        end_leftovers(layout, grace_seconds=0, say=pytest.fail)
    assert caught.value.code == "lock_removed"
    assert list_running(layout)
    child.kill()
    child.reap()


def test_processes_of_an_earlier_supervisor_are_waited_for_and_ended(layout: HiveLayout) -> None:
    child = spawn(shell_spec(layout.root, "trap '' TERM; exec sleep 600"))
    ChildRegister(layout).add(child)
    assert [one.name for one in list_running(layout)] == ["tiny"]
    forget_supervisor(layout)
    said: list[str] = []
    end_leftovers(layout, grace_seconds=0.05, say=said.append)
    assert said == ["waiting for units of an earlier supervisor to end: tiny"]
    assert list_running(layout) == []
    assert child.reap() == -9


@pytest.mark.parametrize("pid", [-1, 0, 1, 99_999_999])
def test_what_a_damaged_register_names_is_not_waited_for_nor_signalled(layout: HiveLayout, pid: int) -> None:
    rows = [{"name": "nats", "pid": pid, "start_ticks": ticks} for ticks in (0, -1)]
    (layout.run_dir / "children.json").write_text(json.dumps(rows))
    assert list_running(layout) == []
    assert not signal_child(layout, "nats", signal.SIGHUP)
    end_leftovers(layout, grace_seconds=0, say=pytest.fail)


def test_a_number_that_came_again_is_nobody_we_know(layout: HiveLayout) -> None:
    (layout.run_dir / "children.json").write_text(
        f'[{{"name": "tiny", "pid": {os.getpid()}, "start_ticks": 1}}, {{"name": "x", "pid": 1}}]'
    )
    assert list_running(layout) == []
    (layout.run_dir / "children.json").write_text(
        f'[{{"name": "tiny", "pid": {os.getpid()}, "start_ticks": 1}}]'
    )
    assert list_running(layout) == []


def test_a_port_that_is_taken_names_unit_and_setting() -> None:
    listeners = Listeners()
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(Misconfigured, match=rf"^broker: port {port} is taken.*--port-base"):
            listeners.bind(port, "broker")
        with pytest.raises(Misconfigured, match="nats"):
            check_port_free(port, "nats")
    descriptor = listeners.bind(port, "broker")
    assert listeners.bind(port, "broker") == descriptor
    assert not os.get_inheritable(descriptor)
    socket.create_connection(("127.0.0.1", port)).close()
    listeners.close_all()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_unit_gets_its_own_settings_and_the_shared_ones() -> None:
    caller = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "ANTHROPIC_API_KEY": "secret",
        "HIVE_LOG_LEVEL": "debug",
        "HIVE_BROKER_MAX_PENDING": "10",
        "HIVE_BROKER_PORT": "1",
        "HIVE_MCP_DATA_DIR": "/data",
        "HIVE_LABEL": "somebody-else",
        "HIVE_TOKEN_FILE": "/somebody/else",
    }
    layout, ports = HiveLayout(Path("/hive")), PortPlan(9000)
    broker = unit_environment(caller, "broker", broker_settings(layout, ports, "north"), listen_fd=5)
    surface = unit_environment(
        caller, "hyperhive", surface_settings(layout, ports, "iris", 2, "hyperhive"), listen_fd=6
    )
    common = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "HIVE_LOG_LEVEL": "debug",
        "HIVE_ROOT": "/hive",
    }
    assert broker == common | {
        "HIVE_BROKER_MAX_PENDING": "10",
        "HIVE_BROKER_PORT": "9000",
        "HIVE_BROKER_HIVE_NAME": "north",
        "HIVE_BROKER_OPERATOR_TOKEN_FILE": "/hive/operator/token",
        "HIVE_LISTEN_FD": "5",
    }
    assert surface == common | {
        "HIVE_MCP_DATA_DIR": "/hive/agents/iris/daemons",
        "HIVE_MCP_PORT": "9120",
        "HIVE_URL": "http://127.0.0.1:9000",
        "HIVE_LABEL": "iris",
        "HIVE_TOKEN_FILE": "/hive/agents/iris/token",
        "HIVE_STATE_DIR": "/hive/agents/iris/state",
        "HIVE_AGENT_SOCKET": "/hive/run/agents/iris/agent.sock",
        "HIVE_CORE_SOCKET": "/hive/run/agents/iris/mcp.sock",
        "HIVE_LISTEN_FD": "6",
    }


def test_the_launcher_does_not_start_a_unit_whose_supervisor_is_gone(tmp_path: Path) -> None:
    launcher = Path(spawn.__globals__["_LAUNCHER"])
    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher, "1", "/bin/sh", "-c", "echo started"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (143, b"")


@pytest.mark.anyio
async def test_what_could_not_be_written_is_as_soon_as_it_can_be(layout: HiveLayout) -> None:
    """A directory in the place of the new file stands for a full disk, which root would not notice either."""
    in_the_way = layout.run_dir / "children.json.new"
    in_the_way.mkdir()
    children = ChildRegister(layout, retry_seconds=0.01)
    first, second = (spawn(shell_spec(layout.root, RUNS)) for _ in range(2))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(children.run)
            children.add(first)
            await anyio.wait_all_tasks_blocked()
            children.add(second)
            first.kill()
            await first.wait()
            assert list_running(layout) == []
            in_the_way.rmdir()
            while not (running := list_running(layout)):  # noqa: ASYNC110 - a file tells nobody
                await anyio.sleep(0.01)
            assert [one.pid for one in running] == [second.pid]
            second.kill()
            await second.wait()
            tasks.cancel_scope.cancel()
