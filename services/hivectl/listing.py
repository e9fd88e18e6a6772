"""What commands that list rows have in common: their options, and the two forms of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from pydantic import BaseModel

from services.hivectl.names import AGENT_NAME, MESSAGE_ID
from services.hivectl.render import print_table
from services.hivectl.session import Session

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=BaseModel)


def limit_option(most: int, default: int = 50) -> Callable[[F], F]:
    """`--limit`, passed as `limit`."""
    return click.option(
        "--limit",
        type=click.IntRange(1, most),
        metavar="N",
        default=default,
        show_default=True,
        help="At most so many.",
    )


def range_options(function: F) -> F:
    """`--limit` and `--before`, passed as `limit` and `before`."""
    before = click.option("--before", type=MESSAGE_ID, metavar="ID", help="Only those older than this one.")
    return before(limit_option(500)(function))


def agent_option(function: F) -> F:
    """`--agent`, passed as `agent`: whose rows."""
    return click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Only those of this agent.")(
        function
    )


def print_rows(
    session: Session,
    rows: Sequence[R],
    headers: Sequence[str],
    cells: Callable[[R], Sequence[str]],
    *,
    empty: str,
    more: bool,
) -> None:
    """A table that ends with whether there are more rows; in JSON a bare array."""
    if session.as_json:
        session.emit_json([row.model_dump(mode="json") for row in rows])
        return
    if not rows:
        click.echo(empty)
        return
    print_table(headers, [cells(row) for row in rows])
    if more:
        session.note("there are more: --limit")
