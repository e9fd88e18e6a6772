"""Broker and surfaces as bare processes, started by the test itself, without `hivectl` and without NATS.

The test is their parent and holds their listening sockets, as a supervisor would: it can kill exactly one of
them, and start it again on the same port.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from shared.layout import HiveLayout
from shared.runtime.sockets import BACKLOG
from shared.tasks.endings import end_all
from tests.support.access import AgentAccess, OperatorAccess, request
from tests.support.preload import Preloaded
from tests.support.waiting import eventually

BIN = Path(sys.executable).parent
START_SECONDS = 30.0
STOP_SECONDS = 15.0
# For `preload`: whose `main` is `hive-broker`.
BROKER_MODULE = "services.broker.__main__"


class Process(Protocol):
    """What is needed of a `subprocess.Popen`, by whatever means it was started."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Unit:
    """One process on a socket that outlives it."""

    def __init__(self, script: str, env: Mapping[str, str], listener: socket.socket, log: Path) -> None:
        self.script = script
        self.env = dict(env)
        self.listener = listener
        self.log = log
        self.command = [str(BIN / script)]
        self.process: Process | None = None
        self._preloaded: Preloaded | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, **env: str) -> None:
        """Start and wait until it answers; `env` adds to the unit's own from now on."""
        self.env |= env
        env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **self.env}
        self.process = self._preloaded.start(env, self.log) if self._preloaded else self._execute(env)
        eventually(self._answers, within=START_SECONDS, what=f"{self.script} answers; {self.log}")

    def preload(self, module: str) -> None:
        """Have later starts fork a parent that has imported `module`, whose `main` is the script's."""
        self._preloaded = Preloaded(module, self.listener, self.log.parent)

    def close(self) -> None:
        """End the process if it still runs, and close the socket."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._preloaded is not None:
            self._preloaded.close()
        self.listener.close()

    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def kill(self) -> None:
        """`kill -9`, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for the process's end; answers the exit code. One that does not end is killed."""
        assert self.process is not None
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def runs_for(self, seconds: float) -> bool:
        """Whether it does not end within that time."""
        assert self.process is not None
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def restart(self) -> None:
        """Kill and start again."""
        self.kill()
        self.start()

    def revive(self) -> None:
        """Start again what a failed test left dead."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process in its tracks (SIGSTOP) for the length of the block."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def log_text(self) -> str:
        """What it has logged, in all its lives."""
        return self.log.read_text(errors="replace")

    def _execute(self, env: Mapping[str, str]) -> Process:
        descriptor = self.listener.fileno()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command,
                env={**env, "HIVE_LISTEN_FD": str(descriptor)},
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )

    def _answers(self) -> bool:
        assert self.process is not None
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(f"{self.script} ended with {code}: {self.log_text()[-3000:]}")
        return request("GET", f"{self.url}/readyz", timeout=1).status_code == 200


class Units:
    """A hive of bare processes: one broker, and a hyperhive surface for each agent."""

    def __init__(self, root: Path, broker_env: Mapping[str, str]) -> None:
        self.layout = HiveLayout(root)
        self.agents: dict[str, AgentAccess] = {}
        self.surfaces: dict[str, Unit] = {}
        self.bash: dict[str, Unit] = {}
        self.layout.logs_dir.mkdir(parents=True)
        write_private_text(self.layout.operator_token_file, secrets.token_urlsafe(32))
        env = {"HIVE_ROOT": str(root), **broker_env}
        self.broker = self._unit("hive-broker", "broker", env, "HIVE_BROKER_PORT")
        self.operator = OperatorAccess(self.broker.url, self.layout.operator_token_file)

    def enlist(self, name: str, *, parent: str | None = None) -> AgentAccess:
        """Create an agent at the broker, with its token and directories but no process."""
        files = self.layout.agent(name)
        token = secrets.token_urlsafe(32)
        write_private_text(files.token_file, token)
        files.state_dir.mkdir(mode=0o700, exist_ok=True)
        body = {"name": name, "token_sha256": hashlib.sha256(token.encode()).hexdigest(), "parent": parent}
        self.operator.json("POST", "/agents", body)
        agent = AgentAccess(name, self.broker.url, files.token_file, files.mcp_config, files.state_dir)
        self.agents[name] = agent
        return agent

    def add(self, name: str, *, parent: str | None = None, **env: str) -> AgentAccess:
        """Create an agent and start its surface; `env` adds to the surface's."""
        agent = self.enlist(name, parent=parent)
        surface = self._unit("hive-mcp-http", name, self._settings(agent) | env, "HIVE_MCP_PORT")
        self._serve(agent, "hyperhive", surface)
        surface.start()
        self.surfaces[name] = surface
        return agent

    def add_bash(self, name: str, **env: str) -> AgentAccess:
        """Start the bash surface of an agent; answers the access to it."""
        agent = self.agents[name]
        surface = self._unit(
            "hive-bash-daemon", f"bash-{name}", self._settings(agent) | env, "HIVE_BASH_PORT"
        )
        self._serve(agent, "bash", surface)
        surface.start()
        self.bash[name] = surface
        return agent.at("bash")

    def _settings(self, agent: AgentAccess) -> dict[str, str]:
        files = self.layout.agent(agent.name)
        return {
            "HIVE_ROOT": str(self.layout.root),
            "HIVE_URL": self.broker.url,
            "HIVE_LABEL": agent.name,
            "HIVE_TOKEN_FILE": str(agent.token_file),
            "HIVE_STATE_DIR": str(agent.state_dir),
            "HIVE_AGENT_SOCKET": str(files.agent_socket),
            "HIVE_CORE_SOCKET": str(files.core_socket),
        }

    def _serve(self, agent: AgentAccess, key: str, surface: Unit) -> None:
        """Put a surface into the agent's `mcp.json`."""
        entry = {
            "type": "http",
            "url": f"{surface.url}/mcp",
            "headers": {"Authorization": f"Bearer {agent.token}"},
            "alwaysLoad": True,
            "timeout": 45_000,
        }
        there = json.loads(agent.mcp_config.read_text()) if agent.mcp_config.exists() else {"mcpServers": {}}
        there["mcpServers"][key] = entry
        write_private_text(agent.mcp_config, json.dumps(there))

    def permit(self, name: str, /, **change: object) -> None:
        """Change an agent's permissions as the operator: `add_groups`, `remove_capabilities`, …"""
        self.operator.json("PATCH", f"/agents/{name}/permissions", change)

    def revive(self) -> None:
        """Start what a failed test left dead."""
        for unit in (self.broker, *self.surfaces.values(), *self.bash.values()):
            unit.revive()

    def close(self) -> None:
        """End every process that still runs, and close the sockets."""
        for unit in (*self.surfaces.values(), *self.bash.values(), self.broker):
            unit.close()
        for name in self.bash:
            end_all(self.layout.agent(name).daemons_dir, "the test is over", 0.2)

    def tails(self, size: int = 1500) -> str:
        """The ends of all logs, for a failed test."""
        logs = sorted(self.layout.logs_dir.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-size:]}" for log in logs)

    def _unit(self, script: str, name: str, env: dict[str, str], port_setting: str) -> Unit:
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        port = {port_setting: str(listener.getsockname()[1])}
        return Unit(script, {**env, **port}, listener, self.layout.logs_dir / f"{name}.log")


@contextmanager
def running_units(*agents: str, preload: str | None = None, **broker_env: str) -> Iterator[Units]:
    """A hive of bare processes in a short temporary directory, with these agents, the first as root.

    `preload` names the module whose `main` is the broker's, for tests that start it often (`Unit.preload`).
    """
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    units = Units(root, broker_env)
    try:
        if preload is not None:
            units.broker.preload(preload)
        units.broker.start()
        for name in agents:
            units.add(name, parent=None if name == agents[0] else agents[0])
        yield units
    finally:
        units.close()
        shutil.rmtree(root)


def write_private_text(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
