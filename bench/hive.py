"""A hive for the benchmark, started and stopped through `hivectl` like any other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HIVECTL = Path(sys.executable).with_name("hivectl")
AGENTS = ("iris", "otto")
# The limits that keep two agents from talking in circles would end the benchmark after a second.
SETTINGS = {"HIVE_BROKER_PAIR_PER_MINUTE": "1000000", "HIVE_BROKER_MAX_PENDING": "1000000"}


@dataclass(frozen=True)
class Endpoint:
    """A URL and the token that opens it."""

    url: str
    token: str


@dataclass(frozen=True)
class Hive:
    """What the benchmark needs of a running hive."""

    root: Path
    description: dict[str, Any]

    @property
    def broker_url(self) -> str:
        """The broker."""
        return str(self.description["broker"]["url"])

    def token(self, agent: str) -> str:
        """An agent's token."""
        return Path(self.description["agents"][agent]["token_file"]).read_text(encoding="ascii").strip()

    def surface(self, agent: str) -> Endpoint:
        """An agent's hyperhive surface, as its `mcp.json` names it."""
        config = json.loads(Path(self.description["agents"][agent]["mcp_config"]).read_bytes())
        entry = config["mcpServers"]["hyperhive"]
        return Endpoint(entry["url"].removesuffix("/mcp"), entry["headers"]["Authorization"].split()[1])


@contextmanager
def running_hive() -> Iterator[Hive]:
    """Start a hive in a temporary root on free ports; stop it at the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="hive-bench-") as folder:
        root = Path(folder)
        environment = {**os.environ, **SETTINGS, "HIVE_ROOT": folder}
        agents = [word for agent in AGENTS for word in ("--agent", agent)]
        try:
            hivectl(environment, "up", "--detach", "--port-base", str(find_port_base()), *agents)
            yield Hive(root, json.loads((root / "hive.json").read_bytes()))
        finally:
            hivectl(environment, "down")


def hivectl(environment: dict[str, str], *arguments: str) -> None:
    """Run one command; its words go to stderr, since stdout is for the result."""
    subprocess.run(
        [str(HIVECTL), *arguments], env=environment, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL
    )


def find_port_base() -> int:
    """A base whose first ports are free now."""
    for base in range(21_000, 30_000, 200):
        if all(_is_free(base + offset) for offset in (0, 22, 100, 110, 120)):
            return base
    raise RuntimeError("no free block of ports between 21000 and 30000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
