"""An agent as its runner sees it: which one, who makes its units, who ends its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.hivectl.supervisor.keeper import Keeper, KeeperListener


@dataclass(frozen=True)
class AgentRef:
    """Which agent: the id is that of this life."""

    agent_id: int
    name: str
    port_block: int


class AgentUnits(Protocol):
    """Makes the units of an agent and holds their sockets."""

    def build_surfaces(self, agent: AgentRef, listener: KeeperListener) -> dict[str, Keeper]:
        """A keeper for each surface, the agent's own one first.

        Raises:
            Misconfigured: when a port is taken.
        """

    def close_sockets(self, agent: AgentRef, surface: str | None = None) -> None:
        """Give the ports up, or that of one surface."""


class EndTasks(Protocol):
    """Ends what runs in an agent's background; blocks, and starts no program."""

    def __call__(self, agent: AgentRef, *, reason: str, grace_seconds: float) -> Sequence[str]:
        """End it all; answers what could not be ended, in words."""
