"""A whole hive by `hivectl up --detach`, as an operator would run it, and `hivectl` with its answers parsed.

The test is not the parent of these processes; it finds them where the supervisor writes them down.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shared.layout import HiveLayout, PortPlan
from tests.support.access import AgentAccess, OperatorAccess
from tests.support.ports import find_port_base
from tests.support.script import JsonObject
from tests.support.waiting import eventually

BIN = Path(sys.executable).parent
UP_SECONDS = 60.0
COMMAND_SECONDS = 60.0


class Started:
    """A `hivectl` that runs beside the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def readline(self) -> str:
        """The next line of what it says."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def end(self) -> int:
        """Wait for it; answers its exit code."""
        self._process.communicate(timeout=90)
        return int(self._process.returncode)


class Hive:
    """A running hive in `root`."""

    def __init__(self, root: Path, ports: PortPlan) -> None:
        self.layout = HiveLayout(root)
        self.ports = ports
        self._home = root / "home"

    # -- hivectl

    def run(
        self, *args: str, within: float = COMMAND_SECONDS, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`hivectl ARGS --root …` with nothing of the caller's settings; whatever its exit code."""
        return subprocess.run(
            [BIN / "hivectl", *args, "--root", str(self.layout.root)],
            env=self._environment() | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
            cwd=self._home,
        )

    def start(self, *args: str) -> Started:
        """The same, without waiting for it."""
        return Started(
            subprocess.Popen(
                [BIN / "hivectl", *args, "--root", str(self.layout.root)],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self._home,
            )
        )

    def ctl(self, *args: str, exits: int = 0, within: float = COMMAND_SECONDS) -> Any:
        """The same with `--json`, which must exit with `exits`; answers the JSON it printed."""
        done = self.run(*args, "--json", within=within)
        assert done.returncode == exits, f"hivectl {args}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def up(self, *args: str) -> None:
        """`hivectl up --detach`; returns when everything is ready."""
        self._home.mkdir(exist_ok=True)
        base = ("--port-base", str(self.ports.base))
        done = self.run("up", "--detach", *base, *args, within=UP_SECONDS)
        assert done.returncode == 0, f"hivectl up: exit {done.returncode}\n{done.stdout}{done.stderr}"

    def down(self) -> None:
        """`hivectl down`."""
        done = self.run("down")
        assert done.returncode == 0, f"hivectl down: exit {done.returncode}\n{done.stdout}{done.stderr}"

    # -- what hive.json says

    def hive_json(self) -> JsonObject:
        """The file for scripts."""
        return dict(json.loads(self.layout.hive_json.read_text()))

    @property
    def operator(self) -> OperatorAccess:
        broker = self.hive_json()["broker"]
        return OperatorAccess(broker["url"], Path(broker["operator_token_file"]))

    def agent(self, name: str) -> AgentAccess:
        """An agent by what `hive.json` says of it."""
        hive = self.hive_json()
        files = hive["agents"][name]
        return AgentAccess(
            name,
            hive["broker"]["url"],
            Path(files["token_file"]),
            Path(files["mcp_config"]),
            Path(files["state_dir"]),
        )

    # -- processes

    def pids(self) -> dict[str, int]:
        """The supervisor's children by name, such as `broker`; those that still run."""
        rows = json.loads((self.layout.run_dir / "children.json").read_text())
        return {row["name"]: row["pid"] for row in rows if _runs(row["pid"], row["start_ticks"])}

    def pid_of(self, name: str) -> int:
        """The process of a unit, waiting for one that is being restarted."""
        return eventually(lambda: self.pids().get(name), within=20, what=f"{name} runs; {self.layout.root}")

    def kill(self, name: str) -> int:
        """`kill -9` one unit; answers the number it had.

        Returns when the supervisor has reaped it: as long as one thread still ends, its sockets are open.
        """
        pid = self.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{pid}").exists(), within=10, what=f"{name} is gone")
        return pid

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Stop a unit in its tracks (SIGSTOP) for the length of the block."""
        pid = self.pid_of(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def log(self, name: str) -> str:
        """What a unit, or `supervisor`, has logged."""
        path = self.layout.logs_dir / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def tails(self, size: int = 1500) -> str:
        """The ends of all logs, for a failed test."""
        logs = sorted(self.layout.logs_dir.rglob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-size:]}" for log in logs)

    def close(self) -> None:
        """`hivectl down`, then SIGKILL to what the supervisor wrote down and is still there."""
        try:
            with suppress(subprocess.TimeoutExpired):
                self.run("down", within=30)
        finally:
            with suppress(OSError, ValueError):
                os.kill(
                    json.loads((self.layout.run_dir / "supervisor.lock").read_text())["pid"], signal.SIGKILL
                )
            with suppress(OSError, ValueError):
                for pid in self.pids().values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }


@contextmanager
def running_hive(*up_args: str) -> Iterator[Hive]:
    """A hive with the root agent and what `up_args` add, in a short temporary directory, on its own ports."""
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    hive = Hive(root, PortPlan(find_port_base()))
    try:
        hive.up(*up_args)
        yield hive
    finally:
        hive.close()
        shutil.rmtree(root, ignore_errors=True)


def _runs(pid: int, start_ticks: int) -> bool:
    """Whether the process is that very one and no zombie (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in {"Z", "X"} and int(fields[19]) == start_ticks
