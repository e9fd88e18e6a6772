"""`hivectl schedules`: prompts that go to agents at a time."""

from __future__ import annotations

import click

from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.listing import agent_option, limit_option, print_rows
from services.hivectl.names import SCHEDULE_ID
from services.hivectl.render import format_time
from services.hivectl.session import Session
from shared.prose import one_line
from shared.wire.schedules import Schedule, ScheduleStatus

MAX_SHOWN = 60

schedules = HiveGroup(
    name="schedules",
    help="Look at prompts that go to agents at a time, and cancel them.\n\n"
    "Agents ask for them; nothing fires that was not approved (`hivectl approvals`).",
    examples=(
        ("hivectl schedules list", "open ones of all agents, newest first"),
        ("hivectl schedules list --agent iris --all --json", ""),
        ("hivectl schedules cancel 3", "it fires no more"),
    ),
)


@schedules.command("list", examples=(("hivectl schedules list --agent iris", ""),))
@click.option("--all", "ended", is_flag=True, help="Also those that have ended.")
@agent_option
@limit_option(500, default=100)
@pass_session
def list_(session: Session, ended: bool, agent: str | None, limit: int) -> None:
    """Show schedules with their targets, the next time, and what came of the last."""
    with session.open_client() as client:
        page = client.list_schedules(agent=agent, ended=ended, limit=limit)
    headers = ("ID", "OWNER", "STATUS", "NEXT", "EVERY", "TO", "LAST", "WHAT")
    print_rows(session, page.schedules, headers, _cells, empty="there is no schedule", more=page.more)


@schedules.command(examples=(("hivectl schedules cancel 3", ""),))
@click.argument("schedule_id", type=SCHEDULE_ID, metavar="ID")
@pass_session
def cancel(session: Session, schedule_id: int) -> None:
    """End a schedule of any agent, with what waits of it: for an approval, or for room in an inbox.

    Who asked for what waits is told.
    """
    with session.open_client() as client:
        schedule = client.cancel_schedule(schedule_id)
    if session.as_json:
        session.emit_json(schedule.model_dump(mode="json"))
        return
    ended = "is cancelled" if schedule.status is ScheduleStatus.CANCELLED else "has nothing waiting any more"
    click.echo(f"schedule {schedule.id} of {schedule.owner} {ended}")


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
