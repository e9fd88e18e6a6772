"""Sends that came to nothing, or to nobody knows what, as the operator sees them; never what was in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.wire.model import RowId, WireRequest, WireResult
from shared.wire.names import AgentName

# Stands for a recipient that is none: what an agent made up is not kept as a name.
UNKNOWN_RECIPIENT = "?"


class Refusal(WireResult):
    """Sends of one sender that were refused to one recipient for one reason, within an hour at most.

    Also those that were stored and parked later (`parked`), and those of which the sender could not be told
    whether they were stored (`outcome_unknown`, each counted at least once). `reason` is what the sender was
    told, or what is known; it and `size`, the bytes of the body, are of the last one, and so is `id`: what is
    counted up moves to the end.
    """

    id: int
    sender: str
    recipient: str = Field(description="an agent, `operator` or `*`; `?` for a name that is none of these")
    code: str = Field(
        description="such as `too_many_hops`, `pair_too_fast`, `inbox_full`, `key_reused`, `body_too_large`, "
        "`parked`, `outcome_unknown`"
    )
    reason: str
    size: int
    count: int
    first_at: int
    last_at: int


class RefusalQuery(WireRequest):
    """Which refusals; `agent` is who sent or should have received, `before` pages backwards by id."""

    agent: AgentName | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    before: RowId | None = None


class RefusalPage(WireResult):
    """Refusals, newest last, and whether older ones exist."""

    refusals: list[Refusal]
    more: bool = False
