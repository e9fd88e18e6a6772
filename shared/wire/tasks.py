"""Background tasks, as a surface tells the broker of them for the operator's eyes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.wire.model import MAX_ID, OneLine, UnixSeconds, WireRequest, WireResult
from shared.wire.task_state import TaskState

MAX_MIRRORED_TASKS = 200
MAX_TITLE = 200


# The surfaces that run tasks.
TASK_SURFACES: tuple[str, ...] = ("bash", "subagent")
TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
# FastAPI validates parsed JSON, where strict mode would refuse a string for an enum.
StateName = Annotated[TaskState, Field(strict=False)]


class ReportedTask(WireRequest):
    """One task. `exit_code` when it ended by itself, `signal` (its number) when by a signal."""

    id: TaskId
    state: StateName
    title: Annotated[OneLine, StringConstraints(max_length=MAX_TITLE)]
    created_at: UnixSeconds
    started_at: UnixSeconds | None = None
    ended_at: UnixSeconds | None = None
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    signal: Annotated[int, Field(ge=1, le=64)] | None = None


# What a surface made of an operator's wish: it ends the task, the task had ended, it knows none by the id.
KillOutcome = Literal["killing", "over", "unknown"]
MAX_KILLS = 50


class KillAnswer(WireRequest):
    """What became of a kill that came down the control stream."""

    id: TaskId
    outcome: KillOutcome


class TaskMirror(WireRequest):
    """What a surface had at `as_of`: all that run, then those that wait, then what ended last.

    Cut to `MAX_MIRRORED_TASKS`; `running` and `pending` count all.
    """

    tasks: Annotated[list[ReportedTask], Field(max_length=MAX_MIRRORED_TASKS)]
    running: Annotated[int, Field(ge=0, le=MAX_ID)]
    pending: Annotated[int, Field(ge=0, le=MAX_ID)]
    as_of: UnixSeconds


class Task(WireResult):
    """A task as the operator sees it: as its surface last reported it."""

    agent: str
    surface: str
    id: str
    state: TaskState
    title: str
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    exit_code: int | None = None
    signal: int | None = None


class TaskSurface(WireResult):
    """How fresh that is: what has changed since `as_of` is unknown while the surface is not `connected`."""

    agent: str
    surface: str
    running: int
    pending: int
    as_of: int
    connected: bool


class TaskPage(WireResult):
    """`GET tasks` and `GET agents/{name}/tasks`: those that run or wait first, then what ended last.

    `surfaces` has those that have ever reported.
    """

    tasks: list[Task]
    surfaces: list[TaskSurface]
    more: bool = False


class TaskKill(WireResult):
    """`POST agents/{name}/tasks/{id}/kill`.

    `delivered` says whether the surface has answered; then `outcome` says what. One that is not connected has
    not heard of it; one that did not answer in time may have.
    """

    agent: str
    id: str
    surface: str | None = None
    delivered: bool
    outcome: KillOutcome | None = None
