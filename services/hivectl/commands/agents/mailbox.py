"""`agent inbox`: the operator's look into an agent's inbox. It hands nothing out and acks nothing."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.mail import page_options, print_page
from services.hivectl.names import AGENT_NAME
from services.hivectl.session import Session
from shared.wire.messages import InboxQuery


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl agent inbox iris", "what waits for iris, or was handed out and not acked"),
        ("hivectl agent inbox iris --all --limit 200", "with what was acked"),
    ),
)
@click.argument("name", type=AGENT_NAME)
@page_options
@pass_session
def inbox(session: Session, name: str, include_acked: bool, limit: int, before: int | None) -> None:
    """Look into an agent's inbox without touching it: nothing is handed out, nothing acked."""
    query = InboxQuery(include_acked=include_acked, limit=limit, before=before)
    with session.open_client() as client:
        page = client.get_agent_inbox(name, query)
    print_page(session, page, empty=f"{name}'s inbox is empty")
