"""Blocking work off the event loop, on a machine that may have no room for another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio.to_thread

from shared.errors import Unavailable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Do it in a worker thread.

    Raises:
        Unavailable: when no thread can be started; nothing was done.
    """
    began = False

    def run() -> T:
        nonlocal began
        began = True
        return work(*args)

    try:
        return await anyio.to_thread.run_sync(run)
    except RuntimeError as exc:
        # What `threading` raises where the process table is full.
        if began:
            raise
        raise Unavailable(
            "the machine has no room for another thread now; end some tasks, or try again later"
        ) from exc
