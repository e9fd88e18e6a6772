"""`hivectl inbox`: what agents sent to the operator, and their messages that were put aside."""

from __future__ import annotations

import click

from services.hivectl.client import OperatorClient
from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.listing import range_options
from services.hivectl.mail import page_options, print_message, print_page
from services.hivectl.names import AGENT_NAME, MESSAGE_ID
from services.hivectl.outgoing import check_body, send_message
from services.hivectl.render import safe
from services.hivectl.session import Session
from shared.errors import Conflict, NotFound
from shared.wire.messages import InboxQuery, MarkReadRequest, Message
from shared.wire.model import MAX_ID
from shared.wire.names import SYSTEM


@click.group(
    cls=HiveGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    examples=(
        ("hivectl inbox", "what is not acked yet, newest last"),
        ('hivectl inbox reply 12 "yes, go ahead"', "answers message 12 in its thread"),
        ("hivectl inbox ack 12", "marks everything up to message 12 as read"),
        ("hivectl inbox parked", "messages that agents' turns failed on"),
        ("hivectl inbox sent", "what you sent and nobody has acked yet"),
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
@click.argument("message_id", type=MESSAGE_ID, metavar="ID")
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
    page = client.get_inbox(InboxQuery(include_acked=True, limit=1, before=min(message_id + 1, MAX_ID)))
    for message in page.messages:
        if message.id == message_id:
            return message
    raise NotFound(
        f"there is no message {message_id} in your inbox; `hivectl inbox --all` shows what there is"
    )


@inbox.command(
    examples=(
        ("hivectl inbox ack 12", "marks everything up to message 12 as read"),
        ("hivectl inbox ack --all", "marks everything as read"),
        ("hivectl inbox ack --all --agent iris", "iris never gets what waits for her now"),
        ("hivectl inbox ack --id 12 --agent iris", "only this one, also when it is parked"),
    ),
)
@click.argument("up_to", type=MESSAGE_ID, metavar="[UP_TO]", required=False)
@click.option("--all", "everything", is_flag=True, help="Everything that is there now.")
@click.option(
    "--id", "ids", type=MESSAGE_ID, multiple=True, metavar="ID", help="This message alone; repeatable."
)
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="In this agent's inbox instead of your own.")
@pass_session
def ack(
    session: Session, up_to: int | None, everything: bool, ids: tuple[int, ...], agent: str | None
) -> None:
    """Mark messages as read: up to id UP_TO, all of them, or single ones.

    They are done with: an agent whose messages these are never gets them again. Parked ones are marked only
    by --id.
    """
    if (up_to is not None) + everything + bool(ids) != 1:
        raise click.UsageError("give UP_TO, or --all, or --id")
    if ids:
        request = MarkReadRequest(ids=list(ids))
    else:
        request = MarkReadRequest(up_to=MAX_ID if up_to is None else up_to)
    with session.open_client() as client:
        result = client.mark_read(request, agent=agent)
    if session.as_json:
        session.emit_json(result.model_dump(mode="json"))
        return
    click.echo(f"{result.acked} marked as read")
    if result.stayed_count:
        click.echo(f"{result.stayed_count} stayed: an urgent message overtook them")


@inbox.command(
    examples=(
        ("hivectl inbox parked", ""),
        ("hivectl inbox release 12", "its agent gets message 12 again"),
        ("hivectl inbox ack --id 12 --agent iris", "gives message 12 up"),
    ),
)
@range_options
@pass_session
def parked(session: Session, limit: int, before: int | None) -> None:
    """Show messages of all agents that were put aside: five turns that took them have failed.

    They wake nobody until they are released.
    """
    with session.open_client() as client:
        page = client.list_parked(limit=limit, before=before)
    print_page(session, page, empty="no message is parked")


@inbox.command(
    examples=(
        ("hivectl inbox sent", "what you sent and nobody has acked yet"),
        ("hivectl inbox sent --agent iris", "the same of an agent"),
        ("hivectl inbox sent 12", "how message 12 stands, whoever sent it"),
    ),
)
@click.argument("message_id", type=MESSAGE_ID, metavar="[ID]", required=False)
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="What this agent sent, instead of your own.")
@range_options
@pass_session
def sent(session: Session, message_id: int | None, agent: str | None, limit: int, before: int | None) -> None:
    """Show what was sent and is not acked yet: its state, how often it was handed out, how its recipient is.

    With ID this one message, also when it was acked.
    """
    if message_id is None:
        with session.open_client() as client:
            page = client.list_sent(agent, limit=limit, before=before)
        print_page(session, page, empty="nothing that was sent waits")
        return
    if agent is not None:
        raise click.UsageError("give ID or --agent, not both")
    with session.open_client() as client:
        message = client.get_message(message_id)
    if session.as_json:
        session.emit_json(message.model_dump(mode="json"))
        return
    print_message(message)


@inbox.command(examples=(("hivectl inbox release 12", ""),))
@click.argument("message_id", type=MESSAGE_ID, metavar="ID")
@pass_session
def release(session: Session, message_id: int) -> None:
    """Let a parked message go again: its agent gets it, with five new attempts."""
    with session.open_client() as client:
        message = client.release_parked(message_id)
    if session.as_json:
        session.emit_json(message.model_dump(mode="json"))
        return
    click.echo(safe(f"#{message.id} waits for {message.recipient} again"))
