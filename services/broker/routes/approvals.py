"""Approvals in both trees, and loose ends: agents ask and wait, the operator looks and decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, status

from services.broker.routes.callers import AsAgent, IdempotencyKey, IdInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import agent_router, operator_router
from services.broker.service.approvals import ApprovalService
from services.broker.service.loose_ends import LooseEndService
from shared.wire.approvals import (
    MAX_WAIT_SECONDS,
    Approval,
    ApprovalPage,
    ApprovalQuery,
    ApprovalStatus,
    AskPermission,
    Decision,
)
from shared.wire.loose_ends import BrokerLooseEnds
from shared.wire.model import MAX_ID
from shared.wire.names import AgentName

WaitSeconds = Annotated[
    int, Query(ge=0, le=MAX_WAIT_SECONDS, description="how long to wait for the operator's answer")
]


async def _query(
    *,
    decided: bool = False,
    agent: AgentName | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
) -> ApprovalQuery:
    # Parameters are text, which the strict wire model would not take as it is.
    return ApprovalQuery(decided=decided, agent=agent, limit=limit, before=before)


@dataclass(frozen=True)
class ApprovalRoutes:
    """The services behind them."""

    approvals: ApprovalService
    loose_ends: LooseEndService

    def build_agent(self) -> APIRouter:
        """For the agents' tree."""
        router = agent_router("approvals")

        @router.post(
            "/approvals", status_code=status.HTTP_201_CREATED, responses=declare(409, 429, body=True)
        )
        async def ask_permission(me: AsAgent, request: AskPermission, key: IdempotencyKey = None) -> Approval:
            """Ask whether a tool may be used; needs the capability `relay_permissions`."""
            return await self.approvals.ask_permission(me, request, key=key)

        @router.get("/approvals/{approval_id}", responses=declare(404))
        async def get_own_approval(
            me: AsAgent, approval_id: IdInPath, *, wait_seconds: WaitSeconds = 0
        ) -> Approval:
            """One that the caller submitted; waits for its end."""
            return await self.approvals.get_own(me, approval_id, wait_seconds=wait_seconds)

        @router.delete("/approvals/{approval_id}", responses=declare(404, 409))
        async def cancel_approval(me: AsAgent, approval_id: IdInPath) -> Approval:
            """Cancel a pending one: the root agent, with the group `approvals`, its own or nobody's."""
            return await self.approvals.cancel(me, approval_id)

        @router.get("/loose-ends", response_model_exclude_none=True, responses=declare())
        async def list_loose_ends(me: AsAgent) -> BrokerLooseEnds:
            """The caller's open threads that the broker knows of."""
            return await self.loose_ends.list_own(me)

        return router

    def build_operator(self) -> APIRouter:
        """For the operator's tree."""
        router = operator_router("approvals")

        @router.get("/approvals", responses=declare(404))
        async def list_approvals(query: Annotated[ApprovalQuery, Depends(_query)]) -> ApprovalPage:
            """Pending approvals of all agents, with `decided` all; without their contents."""
            return await self.approvals.get_page(query)

        @router.get("/approvals/{approval_id}", responses=declare(404))
        async def get_approval(approval_id: IdInPath) -> Approval:
            """One, with exactly what was submitted."""
            return await self.approvals.get(approval_id)

        @router.post("/approvals/{approval_id}/approve", responses=declare(404, 409, body=True))
        async def approve(approval_id: IdInPath, decision: Decision) -> Approval:
            """Let it happen, as it was submitted."""
            return await self.approvals.decide(approval_id, ApprovalStatus.APPROVED, decision)

        @router.post("/approvals/{approval_id}/deny", responses=declare(404, 409, body=True))
        async def deny(approval_id: IdInPath, decision: Decision) -> Approval:
            """Refuse it."""
            return await self.approvals.decide(approval_id, ApprovalStatus.DENIED, decision)

        return router
