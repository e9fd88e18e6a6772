"""How messages are listed and printed, for the operator's inbox and for an agent's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from services.hivectl.listing import range_options
from services.hivectl.render import format_time, safe, safe_block
from services.hivectl.session import Session
from shared.wire.messages import Message, MessagePage, MessageState, ParkedPage, SentMessage, SentPage
from shared.wire.names import OPERATOR

F = TypeVar("F", bound=Callable[..., Any])

# The body of a message stands behind this on every line, so that it cannot pose as a heading.
BAR = "  | "


def page_options(function: F) -> F:
    """`--all`, `--limit` and `--before`, passed as `include_acked`, `limit` and `before`."""
    include = click.option("--all", "include_acked", is_flag=True, help="Also those that were acked.")
    return include(range_options(function))


def print_page(session: Session, page: MessagePage | ParkedPage | SentPage, *, empty: str) -> None:
    """All messages of a page, newest last; in JSON a bare array."""
    if session.as_json:
        session.emit_json([message.model_dump(mode="json") for message in page.messages])
        return
    if not page.messages:
        click.echo(empty)
        return
    if page.more:
        session.note(f"older ones: --before {page.messages[0].id}")
    for message in page.messages:
        print_message(message)


def print_message(message: Message) -> None:
    """One message, with its body."""
    print_heading(message)
    click.echo(safe_block(message.body, indent=BAR))


def print_heading(message: Message) -> None:
    """The line above its body."""
    parts = [f"#{message.id}", f"{message.sender} -> {message.recipient}", format_time(message.sent_at)]
    if message.origin is not None:
        parts.append(message.origin.replace(":", " #", 1))
    if message.urgent:
        parts.append("urgent")
    if message.in_reply_to is not None:
        parts.append(f"re #{message.in_reply_to}")
    if message.state is not MessageState.PENDING or isinstance(message, SentMessage):
        parts.append(message.state)
    if isinstance(message, SentMessage):
        count = message.delivered_count
        parts.append("handed out once" if count == 1 else f"handed out {count} times")
        if message.recipient_state != OPERATOR:
            parts.append(f"{message.recipient} is {message.recipient_state}")
    if message.failed_turns:
        parts.append(f"{message.failed_turns} failed turn{'' if message.failed_turns == 1 else 's'}")
    click.echo(safe("  ".join(parts)))
