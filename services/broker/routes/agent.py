"""`/v1/agent`: what an agent's daemons ask for it. Identity is the credential, never an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, status

from services.broker.routes.callers import AsAgent, IdempotencyKey, IdInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import agent_router
from services.broker.service.agents import AgentService
from services.broker.service.inbox import InboxService
from services.broker.service.messages import MessageService
from services.broker.service.sent import SentService
from services.broker.service.status import StatusService
from shared.wire.agents import AgentMeta, AgentSelf
from shared.wire.messages import (
    AckRequest,
    AckResult,
    InboxLevel,
    RecvRequest,
    RecvResult,
    ReleaseRequest,
    ReleaseResult,
    SendRequest,
    SendResult,
    SentMessage,
    StatesRequest,
    StatesResult,
    StatusText,
)


@dataclass(frozen=True)
class AgentRoutes:
    """The services behind the agent tree."""

    agents: AgentService
    messages: MessageService
    sent: SentService
    inbox: InboxService
    status: StatusService

    def build(self) -> APIRouter:
        router = agent_router("agent")
        self._add_messages(router)
        self._add_inbox(router)
        self._add_self(router)
        return router

    def _add_messages(self, router: APIRouter) -> None:
        @router.post(
            "/messages",
            status_code=status.HTTP_201_CREATED,
            responses=declare(404, 409, 429, body=True),
        )
        async def send(me: AsAgent, request: SendRequest, key: IdempotencyKey = None) -> SendResult:
            """Store a message; durable once this answers."""
            return await self.messages.send(me, request, key=key)

        @router.get("/messages/{message_id}", responses=declare(404))
        async def get_sent(me: AsAgent, message_id: IdInPath) -> SentMessage:
            """How a message that the caller sent stands; without its body."""
            return await self.sent.get_own(me, message_id)

    def _add_inbox(self, router: APIRouter) -> None:
        @router.post("/inbox/recv", responses=declare(409, body=True))
        async def recv(me: AsAgent, request: RecvRequest, key: IdempotencyKey = None) -> RecvResult:
            """Hand out the next rows; never waits."""
            return await self.inbox.recv(me, request, key=key)

        @router.post("/inbox/ack", responses=declare(body=True))
        async def ack(me: AsAgent, request: AckRequest) -> AckResult:
            """Ack own rows up to an id."""
            return await self.inbox.ack(me, request)

        @router.post("/inbox/release", responses=declare(409, body=True))
        async def release(me: AsAgent, request: ReleaseRequest, key: IdempotencyKey = None) -> ReleaseResult:
            """Return own delivered rows to pending; a failed turn counts on each of its rows."""
            return await self.inbox.release(me, request, key=key)

        @router.get("/inbox/level", responses=declare())
        async def get_level(me: AsAgent) -> InboxLevel:
            """How many rows wait."""
            return await self.inbox.get_level(me)

        @router.post("/inbox/states", responses=declare(body=True))
        async def get_states(me: AsAgent, request: StatesRequest) -> StatesResult:
            """How own rows stand, for a daemon that tidies up after them."""
            return await self.inbox.get_states(me, request)

    def _add_self(self, router: APIRouter) -> None:
        @router.get("/self", responses=declare())
        async def get_self(me: AsAgent) -> AgentSelf:
            """Who the credential is."""
            return await self.agents.get_self(me)

        @router.get("/meta", response_model_exclude_none=True, responses=declare(404))
        async def get_meta(
            me: AsAgent, name: Annotated[str | None, Query(min_length=1, max_length=200)] = None
        ) -> AgentMeta:
            """What one may know of an agent; of oneself without a name."""
            return await self.agents.get_meta(me, name)

        @router.put("/status", status_code=status.HTTP_204_NO_CONTENT, responses=declare(body=True))
        async def set_status(me: AsAgent, request: StatusText) -> None:
            """Set the caller's one-line status."""
            await self.status.set(me, request)
