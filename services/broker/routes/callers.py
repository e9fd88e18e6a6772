"""The caller of a request, of the kind that its tree is for, and the parameters that many routes take."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Header, Path, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from services.broker.service.callers import AgentCaller, OperatorCaller
from shared.errors import Unauthenticated
from shared.wire.model import MAX_ID
from shared.wire.names import AgentName

C = TypeVar("C")


class _Credential(SecurityBase, Generic[C]):
    """A dependency that answers with the caller, and is the security scheme of the routes that have it.

    The guard has let only the right kind in; asking again keeps a misplaced route from opening a hole.
    """

    def __init__(self, kind: type[C], scheme_name: str, description: str) -> None:
        self.model = HTTPBearer(description=description)
        self.scheme_name = scheme_name
        self._kind = kind

    async def __call__(self, request: Request) -> C:
        caller = getattr(request.state, "caller", None)
        if not isinstance(caller, self._kind):
            raise Unauthenticated("a valid bearer token is required")
        return caller


_agent = _Credential(AgentCaller, "agentToken", "an agent's own token; it opens nothing of the operator's")
_operator = _Credential(
    OperatorCaller, "operatorToken", "the operator's token; it opens nothing of an agent's"
)

AsAgent = Annotated[AgentCaller, Depends(_agent)]
AsOperator = Annotated[OperatorCaller, Depends(_operator)]
operator_only = Depends(_operator)

KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias=KEY_HEADER,
        pattern=KEY_PATTERN,
        description="one an act; a repeat under it within 24 hours gets the first answer",
    ),
]
NameInPath = Annotated[AgentName, Path(description="an agent's name")]
IdInPath = Annotated[int, Path(ge=1, le=MAX_ID)]
