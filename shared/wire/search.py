"""Messages found by the words in them, for the operator alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.wire.messages import Message
from shared.wire.model import RowId, UnixSeconds, WireRequest, WireResult
from shared.wire.names import PartyName

MAX_QUERY_CHARS = 500


class SearchQuery(WireRequest):
    """What to look for; `before` pages backwards by id."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARS)]
    sender: PartyName | None = None
    recipient: PartyName | None = None
    since: UnixSeconds | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: RowId | None = None


class FoundMessage(Message):
    """A message, and the piece of its body that shows why it was found."""

    snippet: str = Field(description="at most 202 characters on one line, with … where something is left out")
    matches: list[tuple[int, int]] = Field(description="begin and end of each hit in `snippet`")


class SearchPage(WireResult):
    """What was found, newest first, and whether older ones exist."""

    messages: list[FoundMessage]
    more: bool = False
