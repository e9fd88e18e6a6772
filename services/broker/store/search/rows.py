"""Messages by their words, and the index of them, which follows the messages in batches.

It holds all that was stored up to its mark; what is removed leaves it in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    literal_column,
    select,
    update,
)

from services.broker.store.messages import decode
from services.broker.store.prepared import Prepared
from services.broker.store.search.fts5 import Fts5Index
from services.broker.store.search.tsvector import TsvectorIndex
from services.broker.store.search.words import is_unspaced
from services.broker.tables import messages, meta
from shared.wire.messages import Message


class WordIndex(Protocol):
    """What each database has an own way for."""

    @property
    def key(self) -> ColumnElement[int]:
        """The message's id, in the order of which it finds fastest."""

    def add(self, connection: Connection, *, after: int, up_to: int) -> None:
        """Take in the messages with these ids, none of which it holds yet."""

    def narrow(self, query: Select[Any], words: Sequence[str]) -> Select[Any]:
        """The query for those messages alone that hold, for each word, one that begins with it."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What a search is for: all of `words`; None admits everything."""

    words: Sequence[str]
    limit: int
    sender: str | None = None
    recipient: str | None = None
    since: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to which id messages are in the index, and the newest there is."""

    mark: int
    newest: int


MARK_KEY = "searched_up_to"
_IS_MARK = meta.c.key == literal_column(f"'{MARK_KEY}'")
_MARK = select(meta.c.value).where(_IS_MARK).scalar_subquery()
_PROGRESS = Prepared(select(_MARK, select(func.max(messages.c.id)).scalar_subquery()), ["mark", "newest"])
_MOVE_MARK = Prepared(update(meta).where(_IS_MARK).values(value=bindparam("mark")))
_NEXT = Prepared(
    select(messages.c.id, func.length(messages.c.body))
    .where(messages.c.id > bindparam("after"))
    .order_by(messages.c.id)
    .limit(bindparam("at_most")),
    ["id", "chars"],
)
_INDEXES: dict[str, WordIndex] = {"sqlite": Fts5Index(), "postgresql": TsvectorIndex()}


class SearchRows:
    """Keeps and asks the index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_progress(self) -> Progress:
        """How far the index is."""
        row = _PROGRESS.first(self._connection)
        assert row is not None
        return Progress(mark=int(row.mark), newest=row.newest or 0)

    def advance(self, *, rows: int, chars: int) -> int:
        """Take in the next messages, at most so many rows and, but for the first, characters; how many."""
        mark, taken, size, last = self.get_progress().mark, 0, 0, 0
        for row in _NEXT.all(self._connection, after=mark, at_most=rows):
            size += row.chars
            if taken and size > chars:
                break
            taken, last = taken + 1, row.id
        if taken:
            self._index.add(self._connection, after=mark, up_to=last)
            _MOVE_MARK.run(self._connection, mark=str(last))
        return taken

    def find(self, sought: Sought) -> list[Message]:
        """The newest messages that hold all words, newest first."""
        listed = [word for word in sought.words if not is_unspaced(word)]
        query, key = select(messages), messages.c.id.expression
        if listed:
            query, key = self._index.narrow(query, listed), self._index.key
        for word in sought.words:
            if is_unspaced(word):
                query = query.where(messages.c.body.icontains(word, autoescape=True))
        if sought.sender is not None:
            query = query.where(messages.c.sender == sought.sender)
        if sought.recipient is not None:
            query = query.where(messages.c.recipient == sought.recipient)
        if sought.since is not None:
            query = query.where(messages.c.sent_at >= sought.since)
        if sought.before is not None:
            query = query.where(key < sought.before)
        rows = self._connection.execute(query.order_by(key.desc()).limit(sought.limit))
        return [decode(row) for row in rows]

    def has_sender(self, name: str) -> bool:
        """Whether any message is from it."""
        query = select(messages.c.id).where(messages.c.sender == name).limit(1)
        return self._connection.execute(query).first() is not None

    @property
    def _index(self) -> WordIndex:
        return _INDEXES[self._connection.dialect.name]
