"""Asks for a job, after the one that is under way, and waits for its end.

With progress on a terminal, over a restart of the broker, until Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from services.hivectl.client import OperatorClient
from services.hivectl.session import Session, is_interactive
from shared.errors import Conflict, HiveError, Unavailable
from shared.runtime.backoff import Backoff
from shared.wire.lifecycle import Job, JobKind, JobState

POLL_SECONDS = 1
QUIET_POLL_SECONDS = 5
# How long a broker that is being restarted by its supervisor may be away.
BROKER_AWAY_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
# A job that is under way may be a stop, which gives an agent 130 s to end its turn.
FOLLOW_SECONDS = 180.0

_ENDED = frozenset({JobState.DONE, JobState.FAILED})
_DOING = {
    JobKind.START: "starting",
    JobKind.STOP: "stopping",
    JobKind.KILL: "killing",
    JobKind.RESTART: "restarting",
    JobKind.DESTROY: "destroying",
}


def queue_job(
    client: OperatorClient,
    name: str,
    kind: JobKind,
    *,
    say: Callable[[str], None],
    patience_seconds: float = FOLLOW_SECONDS,
) -> Job:
    """Create a job; one of the same agent that is under way, and does not admit this one, is waited for.

    Raises:
        Conflict: `job_under_way`, when that takes longer, or nobody is there to do it.
        NotFound: when there is no such agent, or it was destroyed meanwhile.
        Unavailable: when the broker stays away.
    """
    deadline = time.monotonic() + patience_seconds
    told: int | None = None
    while True:
        try:
            return client.create_job(name, kind)
        except Conflict as exc:
            under_way = exc.details.get("job")
            if exc.code != "job_under_way" or not isinstance(under_way, int):
                raise
            left = deadline - time.monotonic()
            job = poll_job(client, under_way, wait_seconds=max(0, min(QUIET_POLL_SECONDS, int(left))))
            if job.state in _ENDED:
                continue
            if left <= 0:
                raise
            if not client.get_hive().driver_connected:
                raise Conflict(
                    f"{name} has job {job.id} ({job.kind}) under way, and no supervisor is connected to do "
                    "it; start one with `hivectl up`, then try again",
                    code=exc.code,
                    details=exc.details,
                ) from exc
            if told != job.id:
                told = job.id
                say(f"{name}: waiting for the end of job {job.id} ({job.kind}) before the {kind}")


def wait_for_job(session: Session, client: OperatorClient, job: Job) -> Job:
    """Wait until the job is done.

    Raises:
        HiveError: `job_failed`, with what the driver said.
        Unavailable: when the broker stays away.
        click.Abort: on Ctrl-C; the job goes on.
    """
    begun = time.monotonic()
    warned = False
    show = is_interactive() and not session.as_json
    try:
        while job.state not in _ENDED:
            if show:
                seconds = int(time.monotonic() - begun)
                click.echo(f"\r\x1b[K{_DOING[job.kind]} {job.agent} ... {seconds} s", err=True, nl=False)
            before, job = (
                job,
                poll_job(client, job.id, wait_seconds=POLL_SECONDS if show else QUIET_POLL_SECONDS),
            )
            if before.state == job.state == JobState.QUEUED and not warned:
                warned = _warn_without_driver(session, client, job)
    except KeyboardInterrupt as exc:
        session.note(f"\nthe job goes on; `hivectl agent show {job.agent}` says how it stands")
        raise click.Abort from exc
    finally:
        if show:
            click.echo("\r\x1b[K", err=True, nl=False)
    if job.state is JobState.FAILED:
        raise HiveError(
            f"{_DOING[job.kind]} {job.agent} failed: {job.error or 'the driver gave no reason'}",
            code="job_failed",
            details={"job": job.model_dump(mode="json")},
        )
    return job


def poll_job(client: OperatorClient, job_id: int, *, wait_seconds: int) -> Job:
    """The job, as soon as it has ended or after `wait_seconds`; a restart of the broker is waited out.

    Raises:
        Unavailable: when the broker stays away.
    """
    deadline = time.monotonic() + BROKER_AWAY_SECONDS
    backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return client.get_job(job_id, wait_seconds=wait_seconds)
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(backoff.next())


def _warn_without_driver(session: Session, client: OperatorClient, job: Job) -> bool:
    """Say that nobody is there to do the job; it stays queued until somebody is."""
    if client.get_hive().driver_connected:
        return False
    session.note(
        f"no supervisor is connected; job {job.id} waits until `hivectl up` runs (Ctrl-C leaves it queued)"
    )
    return True
