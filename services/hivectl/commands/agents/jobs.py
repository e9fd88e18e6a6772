"""`agent start|stop|kill|restart|destroy`: ask the broker for a job, and wait for its end."""

from __future__ import annotations

import sys

import click

from services.hivectl.client import OperatorClient
from services.hivectl.command import Examples, HiveCommand, pass_session
from services.hivectl.job import queue_job, wait_for_job
from services.hivectl.names import AGENT_NAME
from services.hivectl.session import Session
from shared.errors import HiveError
from shared.wire.lifecycle import Job, JobKind

_NO_WAIT = "Return as soon as the job is written down, which is after the end of one that is under way."
_DONE = {
    JobKind.START: "is running",
    JobKind.STOP: "is stopped",
    JobKind.KILL: "is stopped",
    JobKind.RESTART: "was restarted",
    JobKind.DESTROY: "is destroyed; its name is free",
}


def run_job(session: Session, client: OperatorClient, name: str, kind: JobKind, *, wait: bool) -> Job:
    """Create a job and, unless told otherwise, wait for its end."""
    job = queue_job(client, name, kind, say=session.note)
    return wait_for_job(session, client, job) if wait else job


def _report(session: Session, job: Job, *, waited: bool) -> None:
    if session.as_json:
        session.emit_json(job.model_dump(mode="json"))
    elif waited:
        click.echo(f"{job.agent} {_DONE[job.kind]}")
    else:
        click.echo(f"{job.agent}: job {job.id} ({job.kind}) is {job.state}")


def _make_command(kind: JobKind, text: str, examples: Examples) -> click.Command:
    @click.command(kind.value, cls=HiveCommand, help=text, examples=examples)
    @click.argument("name", type=AGENT_NAME)
    @click.option("--no-wait", is_flag=True, help=_NO_WAIT)
    @pass_session
    def command(session: Session, name: str, no_wait: bool) -> None:
        with session.open_client() as client:
            job = run_job(session, client, name, kind, wait=not no_wait)
        _report(session, job, waited=not no_wait)

    return command


start = _make_command(
    JobKind.START,
    "Start an agent's processes, and have `up` start it from now on. Does nothing to one that runs.\n\n"
    "Fails when it does not come up; it is tried again all the same, until it does or is stopped.",
    (("hivectl agent start iris", ""),),
)
stop = _make_command(
    JobKind.STOP,
    "Stop an agent gracefully. It stays stopped, also after the next `up`, until `agent start`.\n\n"
    "Its mail waits in its inbox.",
    (("hivectl agent stop iris", ""), ("hivectl agent stop iris --no-wait --json", "prints the job")),
)
kill = _make_command(
    JobKind.KILL,
    "End an agent's processes at once, without letting it finish. It stays stopped until `agent start`.",
    (("hivectl agent kill iris", ""),),
)
restart = _make_command(
    JobKind.RESTART,
    "Stop an agent gracefully and start it again. Calls to its surfaces wait meanwhile.\n\n"
    "Fails when it does not come up again; it is tried on all the same, and calls go on waiting.",
    (("hivectl agent restart iris", ""),),
)


@click.command(
    cls=HiveCommand,
    examples=(("hivectl agent destroy iris --yes", "a later `agent add iris` makes a new, unrelated agent"),),
)
@click.argument("name", type=AGENT_NAME)
@click.option("--yes", is_flag=True, help="Really do it. Asked for on a terminal when not given.")
@click.option("--no-wait", is_flag=True, help=_NO_WAIT)
@pass_session
def destroy(session: Session, name: str, yes: bool, no_wait: bool) -> None:
    """End an agent for good: its processes, its credential and its place in the tree.

    Its state directory is kept aside. There is no way back.
    """
    with session.open_client() as client:
        client.get_agent(name)
        if not yes:
            _confirm(session, name)
        job = run_job(session, client, name, JobKind.DESTROY, wait=not no_wait)
    _report(session, job, waited=not no_wait)


def _confirm(session: Session, name: str) -> None:
    if session.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"this ends {name} for good; say --yes to do it")
    if not click.confirm(f"End {name} for good?", err=True):
        raise HiveError("nothing was done", code="declined")
