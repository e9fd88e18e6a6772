"""How a message of the operator's is read from the command line, sent and reported."""

from __future__ import annotations

import sys
from typing import Any

import click

from services.hivectl.client import OperatorClient
from services.hivectl.render import safe
from services.hivectl.session import Session
from shared.wire.messages import SendRequest, Sent
from shared.wire.model import MAX_BODY_BYTES
from shared.wire.model import check_body as check_wire_body
from shared.wire.names import EVERYBODY
from shared.wire.wakes import WakeRequest

MAX_RECIPIENT_CHARACTERS = 200


def check_body(argument: str) -> str:
    """The body that an argument stands for; `-` is standard input without its last line break.

    Raises:
        click.BadParameter: when it is empty, too long or no text.
    """
    try:
        return check_wire_body(_read_stdin() if argument == "-" else argument)
    except ValueError as exc:
        reason = "is not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
        raise click.BadParameter(f"the body {reason}", param_hint="BODY") from exc


def _read_stdin() -> str:
    # Two bytes more than the limit: a line break that is dropped, and one to know that it is too long.
    if sys.stdin is None:
        raise ValueError("was to come from standard input, which is closed")
    raw = sys.stdin.buffer.read(MAX_BODY_BYTES + 2)
    if len(raw) > MAX_BODY_BYTES + 1:
        raise ValueError(f"is over {MAX_BODY_BYTES} bytes; write it to a file and send its path")
    return raw.decode().removesuffix("\n")


def send_message(
    session: Session, client: OperatorClient, *, to: str, body: str, urgent: bool, in_reply_to: int | None
) -> None:
    """Send, and say under which id and how the recipient stands.

    Raises:
        HiveError: as the broker refuses it.
    """
    if not (1 <= len(to) <= MAX_RECIPIENT_CHARACTERS and to.isprintable()):
        raise click.BadParameter("a recipient is an agent's name, or *", param_hint="TO")
    result = client.send(SendRequest(to=to, body=body, urgent=urgent, in_reply_to=in_reply_to))
    if session.as_json:
        rows = [_as_json(sent) for sent in result.sent]
        session.emit_json({"sent": rows} if to == EVERYBODY else rows[0])
        return
    if not result.sent:
        click.echo("there is no agent to send to")
    for sent in result.sent:
        _say(sent)


def wake_agent(session: Session, client: OperatorClient, *, name: str, label: str, body: str) -> None:
    """Wake an agent under a label, and say under which id and how it stands.

    Raises:
        HiveError: as the broker refuses it.
    """
    sent = client.wake(name, WakeRequest.model_validate({"from": label, "body": body}))
    if session.as_json:
        session.emit_json(_as_json(sent))
    else:
        _say(sent)


def _say(sent: Sent) -> None:
    click.echo(safe(f"#{sent.id} queued for {sent.to}, which is {sent.recipient_state}"))


def _as_json(sent: Sent) -> dict[str, Any]:
    return {"id": sent.id, "to": sent.to, "state": "queued", "recipient_state": sent.recipient_state}
