"""The operator's mail: sending, reading, and looking into agents' inboxes without touching them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, status

from services.broker.routes.callers import AsOperator, IdempotencyKey, NameInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.inbox import InboxService
from services.broker.service.messages import MessageService
from services.broker.service.wakes import WakeService
from shared.wire.messages import (
    AckResult,
    InboxQuery,
    MarkReadRequest,
    MessagePage,
    SendRequest,
    SendResult,
    Sent,
)
from shared.wire.model import MAX_ID
from shared.wire.wakes import WakeRequest


async def _page_query(
    *,
    include_acked: bool = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
) -> InboxQuery:
    # Parameters are text, which the strict wire model would not take as it is.
    return InboxQuery(include_acked=include_acked, limit=limit, before=before)


PageQuery = Annotated[InboxQuery, Depends(_page_query)]


@dataclass(frozen=True)
class MailRoutes:
    """The services behind the operator's mail."""

    messages: MessageService
    inbox: InboxService
    wakes: WakeService

    def build(self) -> APIRouter:
        router = operator_router("mail")

        @router.post(
            "/messages",
            status_code=status.HTTP_201_CREATED,
            responses=declare(404, 409, 429, body=True),
        )
        async def send(me: AsOperator, request: SendRequest, key: IdempotencyKey = None) -> SendResult:
            """Send as the operator; this lifts the recipient's limits for a while."""
            return await self.messages.send(me, request, key=key)

        @router.post(
            "/agents/{name}/wake",
            status_code=status.HTTP_201_CREATED,
            responses=declare(404, 409, 429, body=True),
        )
        async def wake(name: NameInPath, request: WakeRequest, key: IdempotencyKey = None) -> Sent:
            """Put a message from a label into an agent's inbox."""
            return await self.wakes.wake(name, request, key=key)

        @router.get("/inbox", responses=declare())
        async def get_inbox(query: PageQuery) -> MessagePage:
            """The operator's own inbox."""
            return await self.inbox.get_page(query)

        @router.post("/inbox/ack", responses=declare(body=True))
        async def mark_read(request: MarkReadRequest) -> AckResult:
            """Ack the operator's own rows."""
            return await self.inbox.mark_read(request)

        @router.get("/agents/{name}/inbox", responses=declare(404))
        async def get_agent_inbox(name: NameInPath, query: PageQuery) -> MessagePage:
            """An agent's inbox; looking at it changes nothing."""
            return await self.inbox.get_page(query, agent=name)

        @router.post("/agents/{name}/inbox/ack", responses=declare(404, body=True))
        async def mark_agent_read(name: NameInPath, request: MarkReadRequest) -> AckResult:
            """Ack rows of an agent's inbox for it, handed out or not; parked ones only by their ids."""
            return await self.inbox.mark_read(request, agent=name)

        return router
