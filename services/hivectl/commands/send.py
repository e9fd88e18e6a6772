"""`hivectl send`: a message from the operator."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import MESSAGE_ID
from services.hivectl.outgoing import check_body, send_message
from services.hivectl.session import Session


@click.command(
    cls=HiveCommand,
    examples=(
        ('hivectl send iris "how far are you?"', ""),
        ('hivectl send iris "stop that" --urgent', "iris gets it before everything else"),
        ('hivectl send "*" "the hive restarts at noon"', "to all agents"),
        ("hivectl send iris - < plan.md", "the body from standard input"),
        ("hivectl send iris -- --json", "a body that begins with a dash"),
    ),
)
@click.argument("to", metavar="TO")
@click.argument("body", metavar="BODY")
@click.option("--urgent", is_flag=True, help="Hand it out before all that waits.")
@click.option("--in-reply-to", type=MESSAGE_ID, metavar="ID", help="The message this answers.")
@pass_session
def send(session: Session, to: str, body: str, urgent: bool, in_reply_to: int | None) -> None:
    """Send a message to an agent, or to all of them with "*", as the operator.

    BODY "-" reads standard input to its end. It is durable when this returns; a stopped agent finds it later.
    """
    text = check_body(body)
    with session.open_client() as client:
        send_message(session, client, to=to, body=text, urgent=urgent, in_reply_to=in_reply_to)
