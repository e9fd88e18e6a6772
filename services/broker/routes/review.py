"""What needs the operator's eyes: messages that were put aside, and sends that were refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from services.broker.routes.callers import IdInPath, NameInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.parking import ParkingService
from services.broker.service.refusals import RefusalLog
from services.broker.service.sent import SentService
from services.broker.service.todos import TodoReview
from shared.wire.messages import Message, ParkedPage, SentMessage, SentPage
from shared.wire.model import MAX_ID
from shared.wire.names import AgentName
from shared.wire.refusals import RefusalPage, RefusalQuery
from shared.wire.todos import TodoPage

Before = Annotated[int | None, Query(ge=1, le=MAX_ID, description="only those with a smaller id")]


async def _refusal_query(
    *,
    agent: AgentName | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Before = None,
) -> RefusalQuery:
    # Parameters are text, which the strict wire model would not take as it is.
    return RefusalQuery(agent=agent, limit=limit, before=before)


@dataclass(frozen=True)
class ReviewRoutes:
    """The services behind the operator's review."""

    parking: ParkingService
    refusals: RefusalLog
    todos: TodoReview
    sent: SentService

    def build(self) -> APIRouter:
        router = operator_router("review")

        @router.get("/parked", responses=declare())
        async def list_parked(
            limit: Annotated[int, Query(ge=1, le=500)] = 50, before: Before = None
        ) -> ParkedPage:
            """Messages whose turns failed five times; nobody is handed them until they are released."""
            return await self.parking.get_page(limit=limit, before=before)

        @router.post("/messages/{message_id}/release", responses=declare(404, 409))
        async def release_parked(message_id: IdInPath) -> Message:
            """Make a parked message pending again, with five new attempts."""
            return await self.parking.release(message_id)

        @router.get("/messages/{message_id}", responses=declare(404))
        async def get_message(message_id: IdInPath) -> SentMessage:
            """How any message stands, and its recipient."""
            return await self.sent.get(message_id)

        @router.get("/sent", responses=declare())
        async def list_sent(
            limit: Annotated[int, Query(ge=1, le=500)] = 50, before: Before = None
        ) -> SentPage:
            """What the operator has sent and nobody has acked yet."""
            return await self.sent.get_page(None, limit=limit, before=before)

        @router.get("/agents/{name}/sent", responses=declare(404))
        async def list_agent_sent(
            name: NameInPath, limit: Annotated[int, Query(ge=1, le=500)] = 50, before: Before = None
        ) -> SentPage:
            """What an agent has sent and nobody has acked yet."""
            return await self.sent.get_page(name, limit=limit, before=before)

        @router.get("/refusals", responses=declare(404))
        async def list_refusals(query: Annotated[RefusalQuery, Depends(_refusal_query)]) -> RefusalPage:
            """Sends that were refused, without their bodies; the last 1000 entries of 7 days."""
            return await self.refusals.get_page(query)

        @router.get("/agents/{name}/todos", response_model_exclude_none=True, responses=declare(404))
        async def get_todos(name: NameInPath) -> TodoPage:
            """An agent's open todos as its daemon last reported them; the newest 100, long texts cut."""
            return await self.todos.get_page(name)

        return router
