"""Schedules in both trees: agents ask for and steer them, the operator looks at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, status

from services.broker.routes.callers import AsAgent, IdempotencyKey, IdInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import agent_router, operator_router
from services.broker.service.schedules import ScheduleService
from shared.wire.names import AgentName
from shared.wire.schedules import CancelSchedule, EditSchedule, RequestSchedule, Schedule, SchedulePage


@dataclass(frozen=True)
class ScheduleRoutes:
    """The service behind them."""

    schedules: ScheduleService

    def build_agent(self) -> APIRouter:
        """For the agents' tree."""
        router = agent_router("schedules")

        @router.post(
            "/schedules", status_code=status.HTTP_201_CREATED, responses=declare(404, 409, 429, body=True)
        )
        async def request_schedule(
            me: AsAgent, request: RequestSchedule, key: IdempotencyKey = None
        ) -> Schedule:
            """Have the operator asked for a schedule; it fires once that is approved."""
            return await self.schedules.request(me, request, key=key)

        @router.get("/schedules", responses=declare())
        async def list_own_schedules(me: AsAgent) -> SchedulePage:
            """The caller's and those of agents below: open ones, then ended ones, newest first."""
            return await self.schedules.list_own(me)

        @router.post("/schedules/{schedule_id}/edit", responses=declare(404, 409, 429, body=True))
        async def edit_schedule(
            me: AsAgent, schedule_id: IdInPath, change: EditSchedule, key: IdempotencyKey = None
        ) -> Schedule:
            """Change some of it; what does more than was approved waits for the operator."""
            return await self.schedules.edit(me, schedule_id, change, key=key)

        @router.post("/schedules/{schedule_id}/cancel", responses=declare(404, 409, 429, body=True))
        async def cancel_schedule(
            me: AsAgent, schedule_id: IdInPath, request: CancelSchedule, key: IdempotencyKey = None
        ) -> Schedule:
            """End it, or leave some targets out."""
            return await self.schedules.cancel(me, schedule_id, request, key=key)

        @router.post("/schedules/{schedule_id}/fire", responses=declare(404, 409, 429))
        async def fire_schedule(me: AsAgent, schedule_id: IdInPath, key: IdempotencyKey = None) -> Schedule:
            """Fire it now."""
            return await self.schedules.fire_now(me, schedule_id, key=key)

        return router

    def build_operator(self) -> APIRouter:
        """For the operator's tree."""
        router = operator_router("schedules")

        @router.get("/schedules", responses=declare(404))
        async def list_schedules(
            *,
            agent: AgentName | None = None,
            ended: bool = False,
            limit: Annotated[int, Query(ge=1, le=500)] = 100,
        ) -> SchedulePage:
            """Open schedules of all agents, or of one, newest first; with `ended` all."""
            return await self.schedules.get_page(agent=agent, ended=ended, limit=limit)

        @router.post("/schedules/{schedule_id}/cancel", responses=declare(404, 409))
        async def cancel_any_schedule(schedule_id: IdInPath) -> Schedule:
            """End one of any agent, with what waits of it; whoever asked for what waits is told."""
            return await self.schedules.cancel_as_operator(schedule_id)

        return router
