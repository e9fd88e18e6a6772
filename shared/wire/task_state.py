"""The states of a background task, as one enum. Standard library only: tasks' supervisors import it too."""

from __future__ import annotations

from enum import StrEnum


class TaskState(StrEnum):
    """Where a task stands. The values are contract; the last five are final: a task never leaves them.

    `pending` waits for a free place. `interrupted` is for a process that is gone without an end written (a
    reboot, a killed supervisor). `failed` never ran, or, with a `reason`, broke a limit of its surface.
    """

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self not in (TaskState.PENDING, TaskState.RUNNING)
