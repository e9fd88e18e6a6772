"""`hivectl inbox`: what agents sent to the operator; reading it acks nothing."""

from __future__ import annotations

import click

from services.hivectl.client import OperatorClient
from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.mail import page_options, print_page
from services.hivectl.outgoing import check_body, send_message
from services.hivectl.session import Session
from shared.errors import Conflict, NotFound
from shared.wire.messages import InboxQuery, MarkReadRequest, Message
from shared.wire.names import SYSTEM

_ID = click.IntRange(1, 2**63 - 1)


@click.group(
    cls=HiveGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    examples=(
        ("hivectl inbox", "what is not acked yet, newest last"),
        ('hivectl inbox reply 12 "yes, go ahead"', "answers message 12 in its thread"),
        ("hivectl inbox ack 12", "marks everything up to message 12 as read"),
        ("hivectl inbox --all --limit 200 --json", ""),
    ),
)
@page_options
@click.pass_context
def inbox(ctx: click.Context, include_acked: bool, limit: int, before: int | None) -> None:
    """Read and answer what agents sent to the operator. Reading acks nothing."""
    if ctx.invoked_subcommand is not None:
        return
    session = ctx.ensure_object(Session)
    with session.open_client() as client:
        page = client.get_inbox(InboxQuery(include_acked=include_acked, limit=limit, before=before))
    print_page(session, page, empty="nothing new in your inbox")


@inbox.command(
    examples=(
        ('hivectl inbox reply 12 "yes, go ahead"', ""),
        ("hivectl inbox reply 12 - < answer.md", "the body from standard input"),
    ),
)
@click.argument("message_id", type=_ID, metavar="ID")
@click.argument("body", metavar="BODY")
@click.option("--urgent", is_flag=True, help="Hand it out before all that waits.")
@pass_session
def reply(session: Session, message_id: int, body: str, urgent: bool) -> None:
    """Answer message ID to whoever sent it. BODY "-" reads standard input."""
    text = check_body(body)
    with session.open_client() as client:
        to = _find_message(client, message_id).sender
        if to == SYSTEM:
            raise Conflict(f"message {message_id} came from the hive itself, which reads no answers")
        send_message(session, client, to=to, body=text, urgent=urgent, in_reply_to=message_id)


def _find_message(client: OperatorClient, message_id: int) -> Message:
    page = client.get_inbox(InboxQuery(include_acked=True, limit=1, before=min(message_id + 1, 2**63 - 1)))
    for message in page.messages:
        if message.id == message_id:
            return message
    raise NotFound(
        f"there is no message {message_id} in your inbox; `hivectl inbox --all` shows what there is"
    )


@inbox.command(examples=(("hivectl inbox ack 12", "marks everything up to message 12 as read"),))
@click.argument("up_to", type=_ID, metavar="UP_TO")
@pass_session
def ack(session: Session, up_to: int) -> None:
    """Mark every message up to id UP_TO as read."""
    with session.open_client() as client:
        result = client.mark_read(MarkReadRequest(up_to=up_to))
    if session.as_json:
        session.emit_json(result.model_dump(mode="json"))
        return
    click.echo(f"{result.acked} marked as read")
    if result.stayed_count:
        click.echo(f"{result.stayed_count} stayed: an urgent message overtook them")
