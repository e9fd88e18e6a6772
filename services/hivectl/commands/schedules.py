"""`hivectl schedules`: prompts that go to agents at a time."""

from __future__ import annotations

import click

from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import format_time, print_table
from services.hivectl.session import Session
from shared.prose import one_line
from shared.wire.schedules import Schedule

MAX_SHOWN = 60

schedules = HiveGroup(
    name="schedules",
    help="Look at prompts that go to agents at a time.\n\n"
    "Agents ask for them; nothing fires that was not approved (`hivectl approvals`).",
    examples=(
        ("hivectl schedules list", "open ones of all agents, newest first"),
        ("hivectl schedules list --agent iris --all --json", ""),
    ),
)


@schedules.command("list", examples=(("hivectl schedules list --agent iris", ""),))
@click.option("--all", "ended", is_flag=True, help="Also those that have ended.")
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Only those of this agent.")
@click.option(
    "--limit",
    type=click.IntRange(1, 500),
    metavar="N",
    default=100,
    show_default=True,
    help="At most so many.",
)
@pass_session
def list_(session: Session, ended: bool, agent: str | None, limit: int) -> None:
    """Show schedules with their targets, the next time, and what came of the last."""
    with session.open_client() as client:
        page = client.list_schedules(agent=agent, ended=ended, limit=limit)
    if session.as_json:
        session.emit_json([row.model_dump(mode="json") for row in page.schedules])
        return
    if not page.schedules:
        click.echo("there is no schedule")
        return
    headers = ("ID", "OWNER", "STATUS", "NEXT", "EVERY", "TO", "LAST", "WHAT")
    print_table(headers, [_cells(row) for row in page.schedules])
    if page.more:
        session.note("there are more: --limit")


def _cells(row: Schedule) -> tuple[str, ...]:
    status = row.status.value if row.approval is None else f"{row.status.value} (approval {row.approval})"
    return (
        str(row.id),
        row.owner,
        status,
        format_time(row.next_fire_at),
        "-" if row.interval_seconds is None else f"{row.interval_seconds} s",
        ", ".join(target.name for target in row.targets if not target.cancelled) or "-",
        row.last_result or "-",
        one_line(row.description or row.body, limit=MAX_SHOWN),
    )
