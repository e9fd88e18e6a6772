"""What a task is to its supervisor: what is asked for, and how it ended.

Standard library only: a task's supervisor imports this too.
"""

from __future__ import annotations

import time
from typing import Final, TypedDict

from shared.wire.task_state import TaskState

__all__ = ["PROTOCOL", "End", "Launch", "StreamRecord", "TaskState"]

PROTOCOL: Final = 1
STREAMS: Final = ("out", "err")


StreamRecord = dict[str, int | str | bool | None]


class Launch(TypedDict):
    """What a supervisor is told, as one JSON line. Paths are absolute; times are seconds, sizes bytes."""

    protocol: int
    id: str
    directory: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: bool
    timeout_seconds: float | None
    grace_seconds: float
    output_bytes: int
    min_free_bytes: int
    limits: dict[str, int]


class End(TypedDict):
    """How a task ended, as its supervisor writes it. `exit_code` and `signal` exclude each other.

    `leftovers` were still running when the command had ended, and were ended; `survivors` could not be.
    `streams` holds a `shared.tasks.output.stream_end.StreamEnd` a stream, as a record.
    """

    protocol: int
    state: str
    exit_code: int | None
    signal: int | None
    reason: str | None
    started_at: float
    ended_at: float
    duration_ms: int
    leftovers: list[str]
    survivors: list[str]
    streams: dict[str, StreamRecord]


def build_end(state: TaskState, reason: str | None, *, started_at: float | None) -> End:
    """An end of which nothing is known but its reason."""
    now = time.time()
    began = now if started_at is None else started_at
    return End(
        protocol=PROTOCOL,
        state=state.value,
        exit_code=None,
        signal=None,
        reason=reason,
        started_at=began,
        ended_at=now,
        duration_ms=max(0, round((now - began) * 1000)),
        leftovers=[],
        survivors=[],
        streams={},
    )
