"""`hivectl wake`: a message to an agent from something that is neither an agent nor the operator."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME, LABEL
from services.hivectl.outgoing import check_body, wake_agent
from services.hivectl.session import Session


@click.command(
    cls=HiveCommand,
    examples=(
        ('hivectl wake iris --from ci --body "main is red"', ""),
        ("hivectl wake iris --from cron:backup --body - < report.txt", "the body from standard input"),
    ),
)
@click.argument("name", type=AGENT_NAME)
@click.option("--from", "label", type=LABEL, required=True, metavar="LABEL", help="Who the message is from.")
@click.option("--body", required=True, metavar="TEXT", help='The message; "-" reads standard input.')
@pass_session
def wake(session: Session, name: str, label: str, body: str) -> None:
    """Put a message from LABEL into an agent's inbox, which wakes it.

    For scripts and timers. A label is 1 to 64 of a-z, 0-9, ".", "_", ":" and "-"; one that is an agent's
    name or reserved, or looks so, is refused. The message is durable when this returns.
    """
    text = check_body(body)
    with session.open_client() as client:
        wake_agent(session, client, name=name, label=label, body=text)
