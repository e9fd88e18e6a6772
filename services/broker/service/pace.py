"""How often something may happen: so many at once, then one at a time at a steady rate. In memory only."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from services.broker.service.clock import Clock

# More than there are daemons; what is forgotten begins anew with all it may have at once.
_MAX_KNOWN = 16_384


@dataclass(slots=True)
class _Bucket:
    left: float
    at: int


class Pace:
    """A token bucket for each key.

    Args:
        at_once: how many may come at once.
        seconds_each: how long one that was taken needs to come back.
        clock: a clock that is set back stops the count for a moment, and locks nobody out.
    """

    def __init__(self, *, at_once: int, seconds_each: float, clock: Clock) -> None:
        self._at_once = at_once
        self._seconds_each = seconds_each
        self._clock = clock
        self._buckets: dict[Hashable, _Bucket] = {}

    def take(self, key: Hashable) -> int:
        """Take one; 0 when there was one, else the seconds until there is."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MAX_KNOWN:
                self._buckets.clear()
            bucket = self._buckets[key] = _Bucket(self._at_once, now)
        regained = max(0, now - bucket.at) / self._seconds_each
        bucket.left, bucket.at = min(self._at_once, bucket.left + regained), now
        if bucket.left >= 1:
            bucket.left -= 1
            return 0
        return max(1, math.ceil((1 - bucket.left) * self._seconds_each))
