"""ULIDs: 26 characters that sort by creation time. Source: github.com/ulid/spec."""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_RANDOM_BITS = 80
_DRAW_BYTES = _RANDOM_BITS // 8
_POOL_DRAWS = 64


class _Generator:
    """Hands out numbers that only grow, also within a millisecond and when the clock steps back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._pool = b""

    def next(self) -> int:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now <= self._last >> _RANDOM_BITS:
                # Same or earlier millisecond: count on from the last one instead of drawing anew.
                self._last += 1
            else:
                self._last = now << _RANDOM_BITS | self._draw()
            return self._last

    def _draw(self) -> int:
        # Many at once: to ask the kernel takes longer than all the rest.
        self._pool = self._pool or os.urandom(_DRAW_BYTES * _POOL_DRAWS)
        drawn, self._pool = self._pool[:_DRAW_BYTES], self._pool[_DRAW_BYTES:]
        return int.from_bytes(drawn)


_generator = _Generator()


def _start_afresh() -> None:
    # A forked child that kept counting from its parent's last number would repeat its siblings' ids.
    global _generator  # noqa: PLW0603
    _generator = _Generator()


os.register_at_fork(after_in_child=_start_afresh)


def new_ulid() -> str:
    """A new ULID: 48 bits of milliseconds, 80 random bits; within a process each is above the one before."""
    number = _generator.next()
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])
