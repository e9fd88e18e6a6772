"""What the output of a task takes on the disk, and its removal. What may go, and when, its daemon decides."""

from __future__ import annotations

import os
import stat

from shared.tasks.output.files import remove_file

_STREAMS = ("out", "err")


def measure_task(directory_fd: int, task_id: str) -> int:
    """The bytes that the files of a task take on the disk, as blocks; only plain files count.

    Segments count too: a task ends before they are joined to its head.
    """
    taken = 0
    for name in _list_files(directory_fd, task_id):
        try:
            found = os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
        except OSError:
            continue
        taken += found.st_blocks * 512 if stat.S_ISREG(found.st_mode) else 0
    return taken


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
    return [name for name in names if name.startswith(mine) and name.split(".")[1] in _STREAMS]
