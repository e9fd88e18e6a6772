"""The index of words on PostgreSQL: a tsvector for each message, in a table of its own with a GIN index.

Of its own, for a row of `messages` is written anew whenever its state changes, and all indexes with it. The
words are made here and not by the server, whose idea of them depends on the locale of the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    bindparam,
    column,
    func,
    insert,
    literal_column,
    select,
    table,
)

from services.broker.store.prepared import Prepared
from services.broker.store.search.words import fold, split_words
from services.broker.tables import messages

_WORDS = table("message_words", column("message_id"), column("words"))
# It changes nothing about the words but their form: no stemming, no stop words.
_SIMPLE: ColumnElement[str] = literal_column("'simple'")
_READ = Prepared(
    select(messages.c.id, messages.c.body).where(
        messages.c.id > bindparam("after"), messages.c.id <= bindparam("up_to")
    ),
    ["id", "body"],
)
_ADD = Prepared(
    insert(_WORDS).values(
        message_id=bindparam("message_id"), words=func.to_tsvector(_SIMPLE, bindparam("words", type_=Text))
    )
)


class TsvectorIndex:
    """A `WordIndex`."""

    key: ColumnElement[int] = messages.c.id

    def add(self, connection: Connection, *, after: int, up_to: int) -> None:
        for row in _READ.all(connection, after=after, up_to=up_to):
            words = " ".join(dict.fromkeys(map(fold, split_words(row.body))))
            _ADD.run_ahead(connection, message_id=row.id, words=words)

    def narrow(self, query: Select[Any], words: Sequence[str]) -> Select[Any]:
        # In quotes nothing is an operator; a word holds none itself.
        terms = " & ".join(f"'{fold(word)}':*" for word in words)
        matches = _WORDS.c.words.op("@@")(func.to_tsquery(_SIMPLE, terms))
        return query.join(_WORDS, _WORDS.c.message_id == messages.c.id).where(matches)
