"""ULIDs: 26 characters that sort by creation time. Source: github.com/ulid/spec."""

from __future__ import annotations

import os
import secrets
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_RANDOM_LIMIT = 1 << _RANDOM_BITS


class _Generator:
    """Hands out numbers that only grow, also within a millisecond and when the clock steps back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbelow(_RANDOM_LIMIT)
            # Same or earlier millisecond: count on from the last one instead of drawing anew.
            if fresh >> _RANDOM_BITS <= self._last >> _RANDOM_BITS:
                fresh = self._last + 1
            self._last = fresh
            return fresh


_generator = _Generator()


def _start_afresh() -> None:
    # A forked child that kept counting from its parent's last number would repeat its siblings' ids.
    global _generator  # noqa: PLW0603
    _generator = _Generator()


os.register_at_fork(after_in_child=_start_afresh)


def new_ulid() -> str:
    """A new ULID: 48 bits of milliseconds, 80 random bits; within a process each is above the one before."""
    number = _generator.next()
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))
