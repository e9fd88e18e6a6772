"""A hive for the benchmark, started and stopped through `hivectl` like any other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import Target
from shared.layout import HiveLayout, PortPlan

HIVECTL = Path(sys.executable).with_name("hivectl")
# The limits that keep two agents from talking in circles would end a benchmark after a second.
# High and not off: what checks them costs the same.
UNLIMITED = {"HIVE_BROKER_PAIR_PER_MINUTE": "1000000", "HIVE_BROKER_MAX_PENDING": "1000000"}
COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class Hive:
    """A hive's root, and `hivectl` for it."""

    layout: HiveLayout
    ports: PortPlan

    def up(self, agents: Sequence[str] = ()) -> None:
        """`hivectl up --detach`; returns when all is ready."""
        named = [word for agent in agents for word in ("--agent", agent)]
        self.run("up", "--detach", "--port-base", str(self.ports.base), *named)

    def down(self) -> None:
        """`hivectl down`."""
        self.run("down")

    def run(self, *arguments: str) -> None:
        """Run one command, with nothing of the caller's settings; its progress goes to stderr."""
        root = self.layout.root
        # What this shell sets for Python, such as to write no bytecode, is not what a hive has.
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "HIVE_ROOT": str(root),
            **UNLIMITED,
        }
        subprocess.run(
            [HIVECTL, *arguments],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
        )

    @property
    def description(self) -> dict[str, Any]:
        """What `hive.json` says."""
        return dict(json.loads(self.layout.hive_json.read_bytes()))

    @property
    def operator(self) -> Target:
        """The broker under the operator's token."""
        return Target.of(self.description["broker"]["url"], _read(self.layout.operator_token_file))

    def broker(self, agent: str) -> Target:
        """The broker under an agent's token."""
        return Target.of(self.description["broker"]["url"], _read(self.layout.agent(agent).token_file))

    def surface(self, agent: str, key: str = "hyperhive") -> Target:
        """One of an agent's surfaces, as its `mcp.json` names it."""
        entry = json.loads(self.layout.agent(agent).mcp_config.read_bytes())["mcpServers"][key]
        return Target(entry["url"].removesuffix("/mcp"), entry["headers"])

    def pids(self) -> dict[str, int]:
        """The processes that the supervisor has started, by name."""
        rows = json.loads((self.layout.run_dir / "children.json").read_bytes())
        return {row["name"]: row["pid"] for row in rows}


@contextmanager
def stopped_hive() -> Iterator[Hive]:
    """A hive in a temporary root on free ports, not started; stopped at the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="hive-bench-", ignore_cleanup_errors=True) as folder:
        hive = Hive(HiveLayout(Path(folder)), PortPlan(find_port_base()))
        try:
            yield hive
        finally:
            hive.down()


@contextmanager
def running_hive(*agents: str) -> Iterator[Hive]:
    """A hive that runs, with these agents below its root agent."""
    with stopped_hive() as hive:
        hive.up(agents)
        yield hive


def find_port_base() -> int:
    """A base whose ports, for ten agents, are free now."""
    offsets = (0, 22, *range(100, 220, 10))
    for base in range(26_000, 31_000, 250):
        if all(_is_free(base + offset) for offset in offsets):
            return base
    raise RuntimeError("no free block of ports between 26000 and 31000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _read(token_file: Path) -> str:
    return token_file.read_text(encoding="ascii").strip()
