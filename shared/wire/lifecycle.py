"""Jobs the operator asks for, and what the driver reports back.

The driver is the supervisor of `hivectl up`, or the one of systemd.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from shared.wire.model import CleanText, OpaqueId, RowId, UnixSeconds, WireRequest, WireResult


class JobKind(StrEnum):
    """What can be done to an agent's processes."""

    START = "start"
    STOP = "stop"
    KILL = "kill"
    RESTART = "restart"
    DESTROY = "destroy"


class JobState(StrEnum):
    """A job is queued, claimed by a driver, and ends once."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class CreateJob(WireRequest):
    """`POST agents/{name}/jobs`."""

    kind: Annotated[JobKind, Field(strict=False)]


class Job(WireResult):
    """One durable job row."""

    id: int
    kind: JobKind
    agent: str
    agent_id: int
    port_block: int
    state: JobState
    created_at: int
    finished_at: int | None = None
    error: str | None = None


class ExitStatus(WireResult):
    """How a process ended: exactly one of the two; both absent when nobody saw it."""

    code: int | None = None
    signal: int | None = None


class DriverEventKind(StrEnum):
    """State changes the driver saw, in the order in which it saw them."""

    STARTED = "started"
    STOPPED = "stopped"
    KILLED = "killed"
    CRASHED = "crashed"
    DESTROYED = "destroyed"
    JOB_DONE = "job_done"
    JOB_FAILED = "job_failed"


class DriverEvent(WireRequest):
    """One fact; the same `event_id` is applied once, however often it is sent."""

    event_id: OpaqueId
    kind: Annotated[DriverEventKind, Field(strict=False)]
    at: UnixSeconds
    agent_id: RowId
    job_id: RowId | None = None
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    exit_signal: Annotated[int, Field(ge=1, le=64)] | None = None
    error: Annotated[CleanText, StringConstraints(max_length=2000)] | None = None


class DriverEvents(WireRequest):
    """`POST driver/events`: applied in order, in one transaction."""

    driver_id: OpaqueId
    events: Annotated[list[DriverEvent], Field(min_length=1, max_length=200)]


class ClaimRequest(WireRequest):
    """`POST driver/claim`: the next job, waiting up to `wait_seconds` for one.

    The first claim of a `driver_id` returns to the queue what an earlier driver had claimed.
    """

    driver_id: OpaqueId
    wait_seconds: Annotated[int, Field(ge=0, le=30)] = 25


class ClaimResult(WireResult):
    """A job, or none within the wait."""

    job: Job | None = None
