"""The state of the agent's turns, as `/api/state`, the broker and the wake signal see it.

Without a turn loop it stays `Idle`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.wire.control import TurnState


@dataclass
class TurnStatus:
    """`turn_state` and the unix second since which it holds."""

    state: TurnState = "Idle"
    since: int = field(default_factory=lambda: int(time.time()))
    on_change: Callable[[], None] = lambda: None

    def set(self, state: TurnState) -> None:
        """Note what the agent does from now on."""
        self.state, self.since = state, int(time.time())
        self.on_change()
