"""`hivectl reminders`: messages that agents will send to themselves."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import format_time, print_table
from services.hivectl.session import Session
from shared.prose import one_line
from shared.wire.reminders import Reminder

MAX_SHOWN = 80


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl reminders", "of all agents, soonest first"),
        ("hivectl reminders iris", ""),
        ("hivectl reminders --limit 1000 --json", ""),
    ),
)
@click.argument("name", type=AGENT_NAME, metavar="[NAME]", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=100,
    show_default=True,
    help="At most so many.",
)
@pass_session
def reminders(session: Session, name: str | None, limit: int) -> None:
    """Show the pending reminders of all agents, or of NAME.

    One that is due and waits for room in its agent's inbox is marked as held.
    """
    with session.open_client() as client:
        page = client.list_reminders(agent=name, limit=limit)
    if session.as_json:
        session.emit_json([row.model_dump(mode="json") for row in page.reminders])
        return
    if not page.reminders:
        click.echo("no reminder is pending")
        return
    print_table(("ID", "AGENT", "DUE", "TEXT"), [_cells(row) for row in page.reminders])
    if page.more:
        session.note("there are more: --limit")


def _cells(row: Reminder) -> tuple[str, ...]:
    due = format_time(row.due_at) + (" (held)" if row.held else "")
    return str(row.id), row.agent, due, one_line(row.body, limit=MAX_SHOWN)
