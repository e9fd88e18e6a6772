"""A surface's tasks as it tells the broker of them, for the operator's eyes."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.tasks.model import TaskState
from shared.tasks.registry import TaskRegistry, TaskRow
from shared.wire.tasks import MAX_MIRRORED_TASKS, ReportedTask, TaskMirror


def take_mirror(registry: TaskRegistry, *, clock: Callable[[], float] = time.time) -> TaskMirror:
    """All that run, then those that wait, then what ended last, as far as there is room.

    Raises:
        Unavailable: when the registry cannot be read.
    """
    still_open = registry.list_open()
    running = [row for row in still_open if row.state is TaskState.RUNNING]
    pending = [row for row in still_open if row.state is TaskState.PENDING]
    ended = [row for row in registry.list_recent(MAX_MIRRORED_TASKS) if row.state.is_final]
    shown = [*running, *pending, *ended][:MAX_MIRRORED_TASKS]
    return TaskMirror(
        tasks=[_report(row) for row in shown],
        running=len(running),
        pending=len(pending),
        as_of=int(clock()),
    )


def _report(row: TaskRow) -> ReportedTask:
    return ReportedTask(
        id=row.id,
        state=row.state,
        title=row.title,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        exit_code=row.end["exit_code"] if row.end else None,
        signal=row.end["signal"] if row.end else None,
    )
