"""Where everything lies under `HIVE_ROOT`, and which port is whose.

Computes paths and ports; touches nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Misconfigured
from shared.wire.names import SURFACES, check_agent_name

DEFAULT_PORT_BASE = 7000
NATS_PORT_OFFSET = 22
AGENT_PORT_OFFSET = 100
AGENT_PORT_BLOCK = 10
MAX_PORT = 65_535
DAEMONS_DIR = "daemons"
# sockaddr_un.sun_path holds 108 bytes with its terminating NUL (Linux unix(7)).
MAX_SOCKET_PATH_BYTES = 107


def default_root() -> Path:
    """`HIVE_ROOT`, else `$XDG_STATE_HOME/hyperhive`, else `~/.local/state/hyperhive`.

    Source: XDG Base Directory Specification 0.8.
    """
    if root := os.environ.get("HIVE_ROOT"):
        return Path(root).expanduser().absolute()
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The specification has relative paths ignored.
    return (state if state.is_absolute() else Path("~/.local/state").expanduser().absolute()) / "hyperhive"


def check_socket_path(path: Path, *, setting: str = "HIVE_ROOT") -> Path:
    """Refuse a unix socket path that the kernel cannot bind; `setting` is what decides about it.

    Raises:
        Misconfigured: when the path is over 107 bytes, saying by how much and what to change.
    """
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH_BYTES:
        raise Misconfigured(
            f"socket path {path} is {size} bytes and the limit is {MAX_SOCKET_PATH_BYTES}; "
            f"set {setting} to a shorter path"
        )
    return path


@dataclass(frozen=True)
class AgentLayout:
    """Paths of one agent."""

    home: Path
    run: Path

    @property
    def token_file(self) -> Path:
        return self.home / "token"

    @property
    def mcp_config(self) -> Path:
        return self.home / "mcp.json"

    @property
    def extra_mcp(self) -> Path:
        return self.home / "extra-mcp.json"

    @property
    def claude_dir(self) -> Path:
        return self.home / "claude"

    @property
    def daemons_dir(self) -> Path:
        """Small private state of the agent's daemons; the agent itself must not reach it."""
        return self.home / DAEMONS_DIR

    @property
    def state_dir(self) -> Path:
        return self.home / "state"

    @property
    def agent_socket(self) -> Path:
        """The in-agent socket, served by the hyperhive surface."""
        return self.run / "agent.sock"

    @property
    def core_socket(self) -> Path:
        """The broker's socket for this agent."""
        return self.run / "mcp.sock"


@dataclass(frozen=True)
class HiveLayout:
    """Paths of one hive."""

    root: Path

    @property
    def hive_json(self) -> Path:
        return self.root / "hive.json"

    @property
    def database(self) -> Path:
        return self.root / "db" / "broker.sqlite"

    @property
    def nats_dir(self) -> Path:
        return self.root / "nats"

    @property
    def operator_token_file(self) -> Path:
        return self.root / "operator" / "token"

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def logs_dir(self) -> Path:
        return self.root / "logs"

    def find_overlap(self, path: str) -> str | None:
        """How a path that is to be opened to an agent meets the hive's own files, or None when it does not.

        All that is here is the operator's or one agent's alone; an agent has its own state anyhow.
        """
        root, other = os.path.realpath(self.root), os.path.realpath(path)
        if other == root or other.startswith(f"{root}/"):
            return "lies in"
        return "holds" if root.startswith(f"{other.rstrip('/')}/") else None

    def agent(self, name: str) -> AgentLayout:
        """Paths of an agent.

        Raises:
            ValueError: when `name` is no agent name, so that no path part is ever unchecked.
        """
        checked = check_agent_name(name)
        return AgentLayout(self.root / "agents" / checked, self.run_dir / "agents" / checked)


@dataclass(frozen=True)
class PortPlan:
    """Which port is whose, from one base."""

    base: int = DEFAULT_PORT_BASE

    @property
    def broker(self) -> int:
        return self.base

    @property
    def nats(self) -> int:
        return self.base + NATS_PORT_OFFSET

    @property
    def max_blocks(self) -> int:
        """How many agents fit below port 65536."""
        return max(0, (MAX_PORT - self.base - AGENT_PORT_OFFSET + 1) // AGENT_PORT_BLOCK)

    def surface(self, block: int, surface: str) -> int:
        """The port of an agent's surface; `block` is the number assigned at the agent's creation, from 0."""
        return self.base + AGENT_PORT_OFFSET + block * AGENT_PORT_BLOCK + SURFACES.index(surface)
