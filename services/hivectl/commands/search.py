"""`hivectl search`: messages by the words in them."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.listing import limit_option
from services.hivectl.mail import BAR, print_heading
from services.hivectl.moment import MOMENT
from services.hivectl.names import MESSAGE_ID, PARTY_NAME
from services.hivectl.render import safe
from services.hivectl.session import Session
from shared.wire.model import clean_text
from shared.wire.search import MAX_QUERY_CHARS, FoundMessage, SearchQuery


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl search deploy failed", "messages with both words, newest first"),
        ("hivectl search deploy --from iris --since 7d", "what iris wrote of it this week"),
        ('hivectl search "roll back" --to operator --json', ""),
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="QUERY")
@click.option("--from", "sender", type=PARTY_NAME, metavar="NAME", help="Only what this one sent.")
@click.option("--to", "recipient", type=PARTY_NAME, metavar="NAME", help="Only what this one was sent.")
@click.option("--since", type=MOMENT, metavar="WHEN", help="Only newer ones: 90m, 12h, 7d, or a date.")
@click.option("--before", type=MESSAGE_ID, metavar="ID", help="Only those older than this one.")
@limit_option(200)
@pass_session
def search(
    session: Session,
    *,
    words: tuple[str, ...],
    sender: str | None,
    recipient: str | None,
    since: int | None,
    before: int | None,
    limit: int,
) -> None:
    """Find messages of all agents by the words in them, newest first.

    A message is found when it holds every word of QUERY, in any order, or longer ones that begin with them.
    Case, accents and signs do not count: nothing in QUERY is an operator. Names are agents, also those that
    are no more, `operator`, `system`, and labels of wakes. Acked messages are found as long as they are kept.
    """
    text = clean_text(" ".join(words))
    if not 1 <= len(text) <= MAX_QUERY_CHARS:
        raise click.UsageError(f"QUERY has {len(text)} characters; it may have 1 to {MAX_QUERY_CHARS}")
    query = SearchQuery(
        query=text, sender=sender, recipient=recipient, since=since, limit=limit, before=before
    )
    with session.open_client() as client:
        page = client.search(query)
    if session.as_json:
        session.emit_json([message.model_dump(mode="json") for message in page.messages])
        return
    if not page.messages:
        click.echo("no message was found")
        return
    for message in page.messages:
        print_heading(message)
        click.echo(BAR + _mark(message))
    if page.more:
        session.note(f"older ones: --before {page.messages[-1].id}")


def _mark(message: FoundMessage) -> str:
    """The snippet with its hits set off, where the terminal can."""
    parts, at = [], 0
    for begin, end in message.matches:
        parts += [safe(message.snippet[at:begin]), click.style(safe(message.snippet[begin:end]), bold=True)]
        at = end
    return "".join([*parts, safe(message.snippet[at:])])
