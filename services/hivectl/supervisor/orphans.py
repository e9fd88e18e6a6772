"""Takes in processes that lose their parent below the supervisor, and buries those that end.

Nothing in this process may start a program but `spawn` and the fork server: the end of another child would be
taken from whoever waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator

import anyio
import anyio.abc

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_POLL_SECONDS = 0.1


def become_subreaper() -> bool:
    """Have the kernel give us the orphans among our descendants (prctl(2)); False where it cannot."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class OrphanReaper:
    """Waits for children that `is_known` does not claim."""

    def __init__(self, is_known: Callable[[int], bool]) -> None:
        self._is_known = is_known
        self._held = 0

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Leave all children alone meanwhile: one of them is about to become known."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sweep whenever a child has ended."""
        with anyio.open_signal_receiver(signal.SIGCHLD) as signals:
            task_status.started()
            async for _ in signals:
                while not self.sweep():  # noqa: ASYNC110 - whoever waits for that child tells nobody else
                    await anyio.sleep(_POLL_SECONDS)

    def sweep(self) -> bool:
        """Reap what has ended and is nobody's; False when there may be more behind one that is somebody's.

        waitid(2) names them one by one, and the same one until it is reaped.
        """
        while not self._held:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if ended is None:
                return True
            if self._is_known(ended.si_pid):
                return False
            with contextlib.suppress(ChildProcessError):
                os.waitpid(ended.si_pid, 0)
        return False
