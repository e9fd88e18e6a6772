"""The operator's search: messages by the words in them."""

from __future__ import annotations

from functools import partial
from typing import Final

from services.broker.service.indexing import Indexing
from services.broker.service.naming import require_name
from services.broker.service.snippets import cut_snippet
from services.broker.store import Store, Tx
from services.broker.store.search import Sought
from services.broker.store.search.words import split_words
from shared.errors import InvalidInput
from shared.wire.names import OPERATOR, SYSTEM
from shared.wire.search import FoundMessage, SearchPage, SearchQuery

MAX_WORDS: Final = 32
_NO_AGENTS: Final = (None, OPERATOR, SYSTEM)


class SearchService:
    """Finds messages, newest first; changes nothing but the index."""

    def __init__(self, store: Store, indexing: Indexing) -> None:
        self._store = store
        self._indexing = indexing

    async def search(self, query: SearchQuery) -> SearchPage:
        """The newest messages that hold all words of the query, or words that begin with them.

        Raises:
            InvalidInput: when it has no word at all, or too many.
            NotFound: when a sender or recipient is asked for of whom nothing was ever heard.
            Unavailable: when the index is not complete yet.
        """
        words = list(dict.fromkeys(split_words(query.query)))
        if not words:
            raise InvalidInput("query has no word to look for: give letters or digits; signs are ignored")
        if len(words) > MAX_WORDS:
            raise InvalidInput(f"query has {len(words)} words, and the limit is {MAX_WORDS}")
        await self._indexing.catch_up()
        return await self._store.read(partial(_find, query=query, words=words))


def _find(tx: Tx, *, query: SearchQuery, words: list[str]) -> SearchPage:
    rows = tx.search.find(
        Sought(
            words,
            limit=query.limit + 1,
            sender=query.sender,
            recipient=query.recipient,
            since=query.since,
            before=query.before,
        )
    )
    if not rows:
        if query.sender not in _NO_AGENTS and not tx.search.has_sender(query.sender):
            require_name(tx, query.sender)
        if query.recipient not in _NO_AGENTS:
            require_name(tx, query.recipient)
    found = []
    for row in rows[: query.limit]:
        snippet, matches = cut_snippet(row.body, words)
        found.append(FoundMessage(**row.model_dump(), snippet=snippet, matches=matches))
    return SearchPage(messages=found, more=len(rows) > query.limit)
