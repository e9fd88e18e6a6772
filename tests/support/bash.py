"""A bash surface by itself, or beside the hyperhive surface of its agent. Its answers, parsed."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shared.runtime.sockets import BACKLOG
from shared.tasks.endings import end_all
from tests.support.access import AgentAccess, Answer, request
from tests.support.line_client import ask
from tests.support.quick_call import quick_call
from tests.support.script import JsonObject
from tests.support.units import Unit, Units, running_units, write_private_text
from tests.support.waiting import eventually

LABEL = "iris"
_STARTED = re.compile(r"^task started: id=(\w+)$", re.MULTILINE)
_SHOWN = re.compile(r"^task (\w+): (.*)$", re.MULTILINE)
# Nobody listens there.
NO_BROKER = "http://127.0.0.1:9"


class BashSurface:
    """One daemon, as it can be killed and started again, and its five tools."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.root = root
        self.home = root / "agents" / LABEL
        self.state_dir = self.home / "state"
        self.data_dir = self.home / "daemons"
        self.output_dir = self.state_dir / "harness" / "bash-tasks"
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.home / "token").exists():
            write_private_text(self.home / "token", secrets.token_urlsafe(32))
        token = (self.home / "token").read_text()
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        settings = {
            "HIVE_ROOT": str(root),
            "HIVE_URL": NO_BROKER,
            "HIVE_LABEL": LABEL,
            "HIVE_TOKEN_FILE": str(self.home / "token"),
            "HIVE_STATE_DIR": str(self.state_dir),
            "HIVE_BASH_PORT": str(listener.getsockname()[1]),
        }
        self.unit = Unit("hive-bash-daemon", settings | env, listener, root / "bash.log")
        entry = {
            "type": "http",
            "url": f"{self.unit.url}/mcp",
            "headers": {"Authorization": f"Bearer {token}"},
            "alwaysLoad": True,
            "timeout": 45_000,
        }
        config = self.home / "bash.mcp.json"
        write_private_text(config, json.dumps({"mcpServers": {"bash": entry}}))
        self.access = AgentAccess(
            LABEL, NO_BROKER, self.home / "token", config, self.state_dir, surface="bash"
        )

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """A call of a tool, whatever comes of it."""
        return quick_call(self.access, tool, arguments)

    def run(self, cmd: str, **more: Any) -> str:
        """`run`, which must be no error; answers its text."""
        return self.call("run", cmd=cmd, **more).ok()

    def start(self, cmd: str, **more: Any) -> str:
        """The same without waiting; answers the id."""
        return id_of(self.run(cmd, wait_seconds=0, **more))

    def status(self, task_id: str, **more: Any) -> str:
        """`status`, which must be no error; answers its text."""
        return self.call("status", id=task_id, **more).ok()

    def end(self, task_id: str) -> str:
        """Wait for a task's end; answers the line that says how it stands then."""
        return state_of(self.status(task_id, wait_seconds=30))

    def kill(self, task_id: str) -> str:
        """`kill`, which must be no error; answers its text."""
        return self.call("kill", id=task_id).ok()

    def send_input(self, task_id: str, text: str | None = None, **more: Any) -> str:
        """`send_input`, which must be no error; answers its text."""
        return self.call("send_input", id=task_id, text=text, **more).ok()

    def list(self) -> str:
        """`list`, which must be no error; answers its text."""
        return self.call("list").ok()

    def output(self, task_id: str, stream: str = "out") -> bytes:
        """What lies on disk of a stream."""
        return (self.output_dir / f"{task_id}.{stream}").read_bytes()

    def wait_for_state(self, task_id: str, state: str) -> None:
        """Until the list shows this of a task; of its end nothing counts as shown by that."""
        eventually(lambda: f"{task_id} {state}" in self.list(), what=f"{task_id} {state}")

    def wait_for_output(self, task_id: str, text: bytes, stream: str = "out") -> None:
        """Until a task has written this."""
        eventually(lambda: text in self.output(task_id, stream), what=f"{text!r} in {task_id}.{stream}")

    def state(self) -> JsonObject:
        """`/api/state` of the surface."""
        url = f"{self.access.surface_url}/api/state"
        return dict(request("GET", url, token=self.access.token).json())

    def close(self) -> None:
        """End the daemon and every task of it."""
        self.unit.close()
        survivors = end_all(self.data_dir, "the test is over", 0.2)
        assert not survivors


def id_of(answer: str) -> str:
    """The task that an answer is about."""
    found = _STARTED.search(answer) or _SHOWN.search(answer)
    assert found, answer
    return found[1]


def state_of(answer: str) -> str:
    """What follows the id in the first line of a status: `done, exit code 0, 0.1 s`."""
    found = _SHOWN.search(answer)
    assert found, answer
    return found[2]


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is more than a zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def processes_with(marker: str) -> list[int]:
    """The processes that have this in their arguments, but for the one that asks."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes() and is_alive(int(entry.name)):
                    found.append(int(entry.name))
    return found


@contextmanager
def running_bash(**env: str) -> Iterator[BashSurface]:
    """A bash surface alone, in a short temporary directory; its tasks end with the block."""
    with running_bash_as(None, env) as surface:
        yield surface


@contextmanager
def running_bash_as(
    user: int | None, env: dict[str, str], *, max_processes: int = 0
) -> Iterator[BashSurface]:
    """The same as another user, which needs root; with `max_processes` that user may have no more."""
    root = Path(tempfile.mkdtemp(prefix="hb-"))
    surface = BashSurface(root, env)
    unit = surface.unit
    if user is not None:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        unit.command = [*become, _python_for(user), "-m", "services.bash_daemon"]
        unit.env["PYTHONPATH"] = _import_path()
        for path in (root, *root.rglob("*")):
            os.chown(path, user, user)
    if max_processes:
        unit.command = ["prlimit", f"--nproc={max_processes}", *unit.command]
    try:
        surface.unit.start()
        yield surface
    finally:
        surface.close()
        shutil.rmtree(root)


@dataclass(frozen=True)
class BashAgent:
    """An agent whose tasks' todos arrive: a broker, its hyperhive surface, and its bash surface."""

    units: Units
    bash: BashSurface

    @property
    def hyperhive(self) -> Unit:
        """The process that serves the in-agent socket."""
        return self.units.surfaces[LABEL]

    def todos(self) -> dict[str, JsonObject]:
        """What is open at the in-agent socket, by the task's id."""
        answer = ask(self.units.layout.agent(LABEL).agent_socket, "list_todos")
        return {todo["key"]: todo for todo in answer["todos"] if todo["subsystem"] == "bash"}

    def wait_for_todos(self, *task_ids: str) -> dict[str, JsonObject]:
        """Until there is one of each of these tasks; answers all that there are."""
        return eventually(
            lambda: todos if set(task_ids) <= set(todos := self.todos()) else None,
            within=20,
            what=f"todos of {task_ids}",
        )


@contextmanager
def running_bash_agent(**env: str) -> Iterator[BashAgent]:
    """A hive of one agent, with a hyperhive and a bash surface; its tasks end with the block."""
    with running_units(LABEL) as units:
        sockets = {"HIVE_AGENT_SOCKET": str(units.layout.agent(LABEL).agent_socket)}
        surface = BashSurface(units.layout.root, sockets | {"HIVE_URL": units.broker.url} | env)
        try:
            surface.unit.start()
            yield BashAgent(units, surface)
        finally:
            surface.close()


def _python_for(user: int) -> str:
    """A Python of our version that this user can run: ours may lie in a home directory."""
    check = f"import sys, httpx2, shared.tasks; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        env = {"PYTHONPATH": _import_path()}
        with suppress(OSError):
            if (
                subprocess.run([python, "-c", check], user=user, group=user, env=env, check=False).returncode
                == 0
            ):
                return python
    pytest.skip("no Python here that an ordinary user can run")


def _import_path() -> str:
    """Where our packages are, and those that they need."""
    return os.pathsep.join([str(Path(__file__).resolve().parents[2]), sysconfig.get_path("purelib")])


def supervisor_of(surface: BashSurface, task_id: str) -> int:
    """The supervisor of one task: who holds its lock."""
    lock = str(surface.data_dir / "bash-tasks" / task_id / "lock")
    for pid in pids_named("hive-task"):
        with suppress(OSError):
            if lock in {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}:
                return pid
    raise AssertionError(f"no supervisor of {task_id}")


def kill_supervisor_of(surface: BashSurface, task_id: str) -> None:
    """`kill -9` the supervisor of one task."""
    os.kill(supervisor_of(surface, task_id), signal.SIGKILL)


def spawner_of(surface: BashSurface) -> int:
    """The process that the daemon has its supervisors started by."""
    for pid in pids_named("hive-tasks"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(surface.unit.pid):
                return pid
    raise AssertionError("no spawner")


def pids_named(name: str) -> list[int]:
    """The processes with this in `comm`."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "comm").read_text().strip() == name:
                found.append(int(entry.name))
    return found
