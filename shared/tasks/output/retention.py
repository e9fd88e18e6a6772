"""What the output of an agent's tasks takes on the disk, what of it may go, and how it is removed.

The daemon decides when. A result that nobody has read is never chosen here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.tasks.output.files import remove_file

STREAMS = ("out", "err")
# With less than this a task could keep nothing worth reading: it is refused.
LEAST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class TaskFiles:
    """One task in the account of an agent's output.

    Args:
        task_id: the task's.
        bytes: on disk when finished, and while it runs the cap that it was given.
        finished_at: unix seconds; None while it runs or waits.
        read: an answer has shown the final state.
    """

    task_id: str
    bytes: int
    finished_at: float | None = None
    read: bool = False


@dataclass(frozen=True)
class Grant:
    """What a new task may keep.

    Args:
        cap_bytes: for both streams together; 0: the quota is used up by what runs and what is unread.
        remove: tasks whose files are to be removed first, oldest first.
    """

    cap_bytes: int
    remove: tuple[str, ...] = ()


def plan_start(tasks: Iterable[TaskFiles], *, quota_bytes: int, cap_bytes: int) -> Grant:
    """Decide how much a new task may keep within the quota of its agent.

    Finished results that were read go, oldest first, until the full cap is free. It is granted while twice as
    much is free, then half of what is left, so that there is something for the next task too. The sum of what
    is granted never exceeds the quota, so what is written cannot either.
    """
    held = list(tasks)
    left = quota_bytes - sum(task.bytes for task in held)
    remove = []
    for task in _removable(held):
        if left >= cap_bytes:
            break
        remove.append(task.task_id)
        left += task.bytes
    granted = cap_bytes if left >= 2 * cap_bytes else min(cap_bytes, max(left // 2, LEAST_BYTES))
    return Grant(granted if granted <= left else 0, tuple(remove))


def plan_sweep(tasks: Iterable[TaskFiles], *, now: float, keep_seconds: float) -> tuple[str, ...]:
    """Finished tasks, read, that ended longer ago than `keep_seconds`: oldest first."""
    return tuple(
        task.task_id
        for task in _removable(tasks)
        if task.finished_at is not None and task.finished_at <= now - keep_seconds
    )


def measure_task(directory_fd: int, task_id: str) -> int:
    """The bytes that the files of a finished task take on the disk, as blocks; a link counts as nothing."""
    taken = 0
    for stream in STREAMS:
        try:
            found = os.stat(f"{task_id}.{stream}", dir_fd=directory_fd, follow_symlinks=False)
        except OSError:
            continue
        taken += found.st_blocks * 512
    return taken


def remove_task(directory_fd: int, task_id: str) -> bool:
    """Remove all files of a task; whether nothing is left of it. Safe to repeat."""
    return remove_tasks(directory_fd, [task_id])


def remove_tasks(directory_fd: int, task_ids: Sequence[str]) -> bool:
    """The same for several, reading the directory once."""
    wanted = {f"{task_id}.{stream}" for task_id in task_ids for stream in STREAMS}
    try:
        names = os.listdir(directory_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    found = [name for name in names if ".".join(name.split(".")[:2]) in wanted]
    kept = [name for name in found if not remove_file(directory_fd, name)]
    return not kept


def _removable(tasks: Iterable[TaskFiles]) -> list[TaskFiles]:
    done = [task for task in tasks if task.finished_at is not None and task.read]
    return sorted(done, key=lambda task: task.finished_at or 0)
