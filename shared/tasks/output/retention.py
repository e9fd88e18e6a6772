"""The removal of a task's output. What may go, and when, its daemon decides."""

from __future__ import annotations

import os

from shared.tasks.model import STREAMS
from shared.tasks.output.files import remove_file


def remove_task(directory_fd: int, task_id: str) -> bool:
    """Remove all files of a task; whether nothing is left of it. Safe to repeat."""
    kept = [name for name in _list_files(directory_fd, task_id) if not remove_file(directory_fd, name)]
    return not kept


def _list_files(directory_fd: int, task_id: str) -> list[str]:
    """Names, in the directory of tasks, that are the task's. None without a directory."""
    try:
        names = os.listdir(directory_fd)
    except OSError:
        return []
    # A prefix first: the directory holds the files of thousands of tasks.
    mine = f"{task_id}."
    return [name for name in names if name.startswith(mine) and name.split(".")[1] in STREAMS]
