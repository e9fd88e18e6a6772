"""The index of words on SQLite: a table of FTS5 that reads the bodies from `messages` and keeps none itself.

A trigger takes out what is removed from `messages`, as far as the index had got.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    column,
    insert,
    literal_column,
    select,
    table,
)

from services.broker.store.prepared import Prepared
from services.broker.tables import messages

_WORDS = table("message_words", column("rowid"), column("body"))
_ADD = Prepared(
    insert(_WORDS).from_select(
        ["rowid", "body"],
        select(messages.c.id, messages.c.body).where(
            messages.c.id > bindparam("after"), messages.c.id <= bindparam("up_to")
        ),
    )
)


class Fts5Index:
    """A `WordIndex`."""

    # Walked backwards by itself, so that the newest need no sorting.
    key: ColumnElement[int] = _WORDS.c.rowid

    def add(self, connection: Connection, *, after: int, up_to: int) -> None:
        _ADD.run(connection, after=after, up_to=up_to)

    def narrow(self, query: Select[Any], words: Sequence[str]) -> Select[Any]:
        # In quotes nothing is an operator; a word holds none itself.
        terms = " AND ".join(f'"{word}"*' for word in words)
        matches = literal_column("message_words").op("MATCH")(terms)
        return query.join(_WORDS, _WORDS.c.rowid == messages.c.id).where(matches)
