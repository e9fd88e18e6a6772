"""The state of the agent's turns, as `/api/state` and the broker see it.

Without a turn loop it stays `Idle`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from shared.wire.control import TurnState


@dataclass
class TurnStatus:
    """`turn_state` and the unix second since which it holds."""

    state: TurnState = "Idle"
    since: int = field(default_factory=lambda: int(time.time()))
