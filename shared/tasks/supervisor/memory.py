"""Whom the kernel ends when memory is short: tasks before daemons (proc_pid_oom_score_adj(5)).

The spawner raises its own score, supervisors and tasks inherit it, and a supervisor takes it back once its
task is forked: so it costs a task one write.
"""

from __future__ import annotations

import os
from typing import Final

_FILE: Final = "/proc/self/oom_score_adj"
_OFFERED: Final = "500"
_before = _OFFERED


def offer_self() -> None:
    """Have the kernel prefer this process, and all that it forks."""
    global _before  # noqa: PLW0603 (of this process, as the score itself)
    descriptor = os.open(_FILE, os.O_RDWR | os.O_CLOEXEC)
    try:
        _before = os.read(descriptor, 16).decode().strip()
        if int(_before) < int(_OFFERED):
            os.write(descriptor, _OFFERED.encode())
    finally:
        os.close(descriptor)


def take_back() -> None:
    """Have it spare this process as it spared the spawner at first; what was forked before stays offered."""
    descriptor = os.open(_FILE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, _before.encode())
    finally:
        os.close(descriptor)
