"""`hivectl reminders`: messages that agents will send to themselves."""

from __future__ import annotations

import click

from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.listing import agent_option, limit_option, print_rows
from services.hivectl.names import REMINDER_ID
from services.hivectl.render import format_time, safe
from services.hivectl.session import Session
from shared.prose import one_line
from shared.wire.reminders import Reminder

MAX_SHOWN = 80


@click.group(
    cls=HiveGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    examples=(
        ("hivectl reminders", "of all agents, soonest first"),
        ("hivectl reminders --agent iris", ""),
        ("hivectl reminders cancel 7", "it will not come"),
        ("hivectl reminders --limit 1000 --json", ""),
    ),
)
@agent_option
@limit_option(1000, default=100)
@click.pass_context
def reminders(ctx: click.Context, agent: str | None, limit: int) -> None:
    """Show what agents will remind themselves of, and cancel it.

    One that is due and waits for room in its agent's inbox is marked as held.
    """
    if ctx.invoked_subcommand is not None:
        return
    session = ctx.ensure_object(Session)
    with session.open_client() as client:
        page = client.list_reminders(agent=agent, limit=limit)
    headers = ("ID", "AGENT", "DUE", "TEXT")
    print_rows(session, page.reminders, headers, _cells, empty="no reminder is pending", more=page.more)


@reminders.command(examples=(("hivectl reminders cancel 7", ""),))
@click.argument("reminder_id", type=REMINDER_ID, metavar="ID")
@pass_session
def cancel(session: Session, reminder_id: int) -> None:
    """Delete a pending reminder of any agent. The agent is not told."""
    with session.open_client() as client:
        reminder = client.cancel_reminder(reminder_id)
    if session.as_json:
        session.emit_json(reminder.model_dump(mode="json"))
        return
    text = one_line(reminder.body, limit=MAX_SHOWN)
    click.echo(safe(f"reminder {reminder.id} of {reminder.agent} is cancelled: {text}"))


def _cells(row: Reminder) -> tuple[str, ...]:
    due = format_time(row.due_at) + (" (held)" if row.held else "")
    return str(row.id), row.agent, due, one_line(row.body, limit=MAX_SHOWN)
