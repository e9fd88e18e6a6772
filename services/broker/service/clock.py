"""The time of day as the services see it: integer unix seconds, replaceable."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock() -> int:
    """Unix seconds now."""
    return int(time.time())
