"""`hivectl audit`: messages that were refused or parked, or whose fate nobody could tell their senders."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.listing import range_options
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import format_time, print_table
from services.hivectl.session import Session
from shared.wire.refusals import Refusal, RefusalQuery


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl audit", "what was refused lately, newest last"),
        ("hivectl audit --agent iris", "what iris sent, or should have received"),
        ("hivectl audit --limit 500 --json", ""),
    ),
)
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Only what concerns this agent.")
@range_options
@pass_session
def audit(session: Session, agent: str | None, limit: int, before: int | None) -> None:
    """Show which messages were refused: to whom, how often, why. Their bodies are not kept.

    Also those that were put aside (parked), and those of which the sender was told that nobody knows whether
    they were stored (outcome_unknown), with what the broker knows of them. The same again within an hour is
    counted up in one line. The last 1000 are kept, of one sender the last 200, for 7 days.
    """
    with session.open_client() as client:
        page = client.list_refusals(RefusalQuery(agent=agent, limit=limit, before=before))
    if session.as_json:
        session.emit_json([row.model_dump(mode="json") for row in page.refusals])
        return
    if not page.refusals:
        click.echo("nothing was refused")
        return
    if page.more:
        session.note(f"older ones: --before {page.refusals[0].id}")
    print_table(("LAST", "FROM", "TO", "TIMES", "WHY"), [_cells(row) for row in page.refusals])


def _cells(row: Refusal) -> tuple[str, ...]:
    return format_time(row.last_at), row.sender, row.recipient, str(row.count), f"{row.code}: {row.reason}"
