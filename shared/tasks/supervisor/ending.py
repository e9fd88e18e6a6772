"""How a task is brought to its end: SIGTERM to all of it, a grace, SIGKILL, and what is left is named."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from shared.tasks.supervisor import tree
from shared.tasks.supervisor.cgroup import TaskGroup

# What a command left running may end by itself within this, such as the last stage of a pipe.
NATURAL_SECONDS: Final = 0.2
# And has this after SIGTERM, as nobody waits for anything but the end.
LEFTOVER_GRACE_SECONDS: Final = 1.0
_KILL_EVERY_SECONDS: Final = 0.05
# A task that is only beginning has no process yet that SIGTERM could reach.
_TERM_AGAIN_SECONDS: Final = 0.01
_GIVE_UP_SECONDS: Final = 5.0


class Ending:
    """The stages of one end. `is_given_up` when even SIGKILL has not helped (uninterruptible sleep).

    Args:
        init: the first process of the task's pid namespace, whose death is the death of all in it; else None.
        group: all of the task, where the kernel keeps it together; else None.
    """

    def __init__(self, init: int | None, group: TaskGroup | None, *, grace_seconds: float) -> None:
        self._root = os.getpid()
        self._init = init
        self._group = group
        self._kill_at = time.monotonic() + grace_seconds
        self._give_up_at: float | None = None
        self._term_at: float | None = None
        self.is_given_up = False
        self._terminate()

    def hasten(self, grace_seconds: float) -> None:
        """Let the rest have no more than this."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)

    @property
    def due_at(self) -> float:
        """When `go_on` has something to do, on the monotonic clock."""
        return self._kill_at if self._term_at is None else min(self._term_at, self._kill_at)

    def go_on(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now < self._kill_at:
            if self._term_at is not None and now >= self._term_at:
                self._terminate()
            return
        self._term_at = None
        self._give_up_at = self._give_up_at or now + _GIVE_UP_SECONDS
        if now >= self._give_up_at:
            self.is_given_up = True
            return
        self._kill_at = now + _KILL_EVERY_SECONDS
        if self._group is not None:
            self._group.kill()
        if self._init is None:
            tree.kill_all(self._root)
        else:
            # It is a child that has not been waited for: its number cannot be another's.
            os.kill(self._init, signal.SIGKILL)

    def _terminate(self) -> None:
        is_heard = tree.terminate_all(self._root, but=self._init) > 0
        self._term_at = None if is_heard else time.monotonic() + _TERM_AGAIN_SECONDS

    def survivors(self) -> list[str]:
        """What is still there."""
        return [str(process) for process in tree.find_descendants(self._root, but=self._init)]
