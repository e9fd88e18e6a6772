"""Waits for a job's end: with progress on a terminal, over a restart of the broker, until Ctrl-C."""

from __future__ import annotations

import time

import click

from services.hivectl.client import OperatorClient
from services.hivectl.session import Session, is_interactive
from shared.errors import HiveError, Unavailable
from shared.runtime.backoff import Backoff
from shared.wire.lifecycle import Job, JobKind, JobState

POLL_SECONDS = 1
QUIET_POLL_SECONDS = 5
# How long a broker that is being restarted by its supervisor may be away.
BROKER_AWAY_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0

_DOING = {
    JobKind.START: "starting",
    JobKind.STOP: "stopping",
    JobKind.KILL: "killing",
    JobKind.RESTART: "restarting",
    JobKind.DESTROY: "destroying",
}


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
        while job.state not in {JobState.DONE, JobState.FAILED}:
            if show:
                seconds = int(time.monotonic() - begun)
                click.echo(f"\r\x1b[K{_DOING[job.kind]} {job.agent} ... {seconds} s", err=True, nl=False)
            before, job = (
                job,
                poll_job(client, job, wait_seconds=POLL_SECONDS if show else QUIET_POLL_SECONDS),
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


def poll_job(client: OperatorClient, job: Job, *, wait_seconds: int) -> Job:
    """The job, as soon as it has ended or after `wait_seconds`; a restart of the broker is waited out.

    Raises:
        Unavailable: when the broker stays away.
    """
    deadline = time.monotonic() + BROKER_AWAY_SECONDS
    backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return client.get_job(job.id, wait_seconds=wait_seconds)
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
