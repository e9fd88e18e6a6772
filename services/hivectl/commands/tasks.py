"""`hivectl tasks`: what runs in agents' background, as their surfaces last reported it, and how to end it."""

from __future__ import annotations

import signal
import time

import click

from services.hivectl.client import OperatorClient
from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.names import AGENT_NAME, TASK_ID
from services.hivectl.render import format_age, print_table, safe
from services.hivectl.session import Session
from shared.errors import HiveError, NotFound
from shared.prose import age, one_line
from shared.wire.tasks import Task, TaskPage, TaskSurface

MAX_SHOWN = 70
_ALL = 5_000


class TaskGroup(HiveGroup):
    """A group whose `list` may be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take what names no command for the arguments of `list`."""
        named = any(arg in self.commands for arg in args)
        if not named and not {"--help", "-h"} & set(args):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=TaskGroup,
    examples=(
        ("hivectl tasks", "what runs or waits now, of all agents"),
        ("hivectl tasks iris --all", "also what has ended lately"),
        ("hivectl tasks --json | jq '.tasks[] | select(.state == \"running\")'", ""),
        ("hivectl tasks kill k3v9x2mq", "ends that task and all that it started"),
    ),
)
def tasks() -> None:
    """Show what runs in agents' background, and end it. `list` may be left out."""


@tasks.command(
    "list",
    examples=(
        ("hivectl tasks iris", "what iris has running or waiting"),
        ("hivectl tasks --all --json", "`tasks`, `surfaces` with `as_of` and `connected`, `more`"),
    ),
)
@click.argument("name", type=AGENT_NAME, metavar="[NAME]", required=False)
@click.option("--all", "include_ended", is_flag=True, help="Also those that have ended lately.")
@click.option(
    "--limit",
    type=click.IntRange(1, _ALL),
    metavar="N",
    default=500,
    show_default=True,
    help="At most so many.",
)
@pass_session
def list_(session: Session, name: str | None, include_ended: bool, limit: int) -> None:
    """Show the background tasks of all agents, or of NAME, as their surfaces reported them within seconds.

    Of a surface that is not connected these are the last that it reported; its tasks go on without it.
    """
    with session.open_client() as client:
        page = client.list_tasks(name, include_ended=include_ended, limit=limit)
    if session.as_json:
        session.emit_json(page.model_dump(mode="json", exclude_none=True))
        return
    if page.tasks:
        print_table(
            ("ID", "AGENT", "SURFACE", "STATE", "SINCE", "TITLE"), [_cells(task) for task in page.tasks]
        )
    else:
        click.echo("no task runs or waits" if not include_ended else "no task is known")
    for line in _notes(page):
        session.note(line)


@tasks.command(
    examples=(
        ("hivectl tasks kill k3v9x2mq", ""),
        ("hivectl tasks kill k3v9x2mq --agent iris", "also when it was started a moment ago"),
    ),
)
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Whose task it is; else it is looked for.")
@pass_session
def kill(session: Session, task_id: str, agent: str | None) -> None:
    """End a task and all that it started; its agent is told as of any end.

    Exits with 1 when the task's surface could not be told, or did not answer within 5 s; with 4 when there is
    no such task. A task that has ended already is no failure.
    """
    with session.open_client() as client:
        done = client.kill_task(agent or _find_agent(client, task_id), task_id)
    if session.as_json:
        session.emit_json(done.model_dump(mode="json", exclude_none=True))
    if done.outcome is None:
        raise HiveError(
            f"the {done.surface or 'bash'} surface of {done.agent} is not connected to the broker, or did "
            f"not answer: `hivectl agent show {done.agent}` says which; `hivectl tasks {done.agent}` then",
            code="not_delivered",
        )
    if not session.as_json:
        words = {"killing": "is being ended", "over": "has ended already", "unknown": "is not known any more"}
        click.echo(safe(f"task {done.id} of {done.agent} {words[done.outcome]}"))


def _find_agent(client: OperatorClient, task_id: str) -> str:
    page = client.list_tasks(None, include_ended=True, limit=_ALL)
    for task in page.tasks:
        if task.id == task_id:
            return task.agent
    raise NotFound(
        f"no surface has reported a task {task_id}; `hivectl tasks --all` shows those that are known, and "
        "one that was started a moment ago is found with --agent NAME"
    )


def _cells(task: Task) -> tuple[str, ...]:
    since = format_age(task.ended_at or task.started_at or task.created_at)
    return task.id, task.agent, task.surface, _describe(task), since, one_line(task.title, limit=MAX_SHOWN)


def _describe(task: Task) -> str:
    """`done (1)`, `killed (SIGTERM)`."""
    if task.exit_code is not None:
        return f"{task.state} ({task.exit_code})"
    if task.signal is not None:
        return f"{task.state} ({_name_signal(task.signal)})"
    return str(task.state)


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _notes(page: TaskPage) -> list[str]:
    lines = ["there are more: --limit"] if page.more else []
    return lines + [_describe_lost(one) for one in page.surfaces if not one.connected]


def _describe_lost(surface: TaskSurface) -> str:
    reported = age(int(time.time()) - surface.as_of)
    return f"{surface.agent}'s {surface.surface} surface is not connected; as it reported {reported}"
