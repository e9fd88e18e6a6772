"""Waiting, bounded, for what announces itself by no event (a file, a port, another process's state)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import httpx2

T = TypeVar("T")
_PAUSE_SECONDS = 0.05


def eventually(probe: Callable[[], T | None], *, within: float = 10, what: str = "") -> T:
    """Ask `probe` until it answers something true, at most `within` seconds.

    A failed assertion or connection inside `probe` counts as not yet.

    Raises:
        TimeoutError: naming what was waited for, and the last answer or error.
    """
    deadline = time.monotonic() + within
    while True:
        last: object
        try:
            value = probe()
            if value:
                return value
            last = value
        except (AssertionError, OSError, httpx2.TransportError) as exc:
            last = exc
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {within} s: {what or probe}; last: {last!r}")
        time.sleep(_PAUSE_SECONDS)
