"""The operator's search over all messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.search import SearchService
from shared.wire.model import MAX_ID, MAX_UNIX_SECONDS
from shared.wire.names import PartyName
from shared.wire.search import MAX_QUERY_CHARS, SearchPage, SearchQuery


async def _search_query(
    *,
    query: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MAX_QUERY_CHARS,
            description="words, in any order; each also finds longer ones that begin with it",
        ),
    ],
    sender: PartyName | None = None,
    recipient: PartyName | None = None,
    since: Annotated[
        int | None, Query(ge=0, le=MAX_UNIX_SECONDS, description="sent at that unix second or later")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="only those with a smaller id")] = None,
) -> SearchQuery:
    # Parameters are text, which the strict wire model would not take as it is.
    return SearchQuery(
        query=query, sender=sender, recipient=recipient, since=since, limit=limit, before=before
    )


@dataclass(frozen=True)
class SearchRoutes:
    """The service behind it."""

    search: SearchService

    def build(self) -> APIRouter:
        router = operator_router("search")

        @router.get("/messages/search", responses=declare(404))
        async def search_messages(query: Annotated[SearchQuery, Depends(_search_query)]) -> SearchPage:
            """Messages that hold all words of the query, newest first; case and accents do not count."""
            return await self.search.search(query)

        return router
