"""The caller of a request, of the kind that its tree is for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Request

from services.broker.service.callers import AgentCaller, OperatorCaller
from shared.errors import Unauthenticated
from shared.wire.model import MAX_ID
from shared.wire.names import AgentName


async def _require_agent(request: Request) -> AgentCaller:
    caller = getattr(request.state, "caller", None)
    if not isinstance(caller, AgentCaller):
        raise Unauthenticated("a valid bearer token is required")
    return caller


async def _require_operator(request: Request) -> OperatorCaller:
    caller = getattr(request.state, "caller", None)
    if not isinstance(caller, OperatorCaller):
        raise Unauthenticated("a valid bearer token is required")
    return caller


# The guard has let only the right kind in; asking again keeps a misplaced route from opening a hole.
AsAgent = Annotated[AgentCaller, Depends(_require_agent)]
AsOperator = Annotated[OperatorCaller, Depends(_require_operator)]
operator_only = Depends(_require_operator)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[A-Za-z0-9_-]{1,64}$",
        description="one an act; a repeat under it within 24 hours gets the first answer",
    ),
]
NameInPath = Annotated[AgentName, Path(description="an agent's name")]
IdInPath = Annotated[int, Path(ge=1, le=MAX_ID)]
