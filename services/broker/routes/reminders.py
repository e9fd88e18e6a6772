"""Reminders in both trees: agents set and cancel their own, the operator looks at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, status

from services.broker.routes.callers import AsAgent, IdempotencyKey, IdInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import agent_router, operator_router
from services.broker.service.reminders import ReminderService
from shared.wire.names import AgentName
from shared.wire.reminders import Reminder, ReminderPage, RemindRequest, SpillsRequest, SpillsResult


@dataclass(frozen=True)
class ReminderRoutes:
    """The service behind them."""

    reminders: ReminderService

    def build_agent(self) -> APIRouter:
        """For the agents' tree."""
        router = agent_router("reminders")

        @router.post(
            "/reminders", status_code=status.HTTP_201_CREATED, responses=declare(409, 429, body=True)
        )
        async def remind(me: AsAgent, request: RemindRequest, key: IdempotencyKey = None) -> Reminder:
            """Send the caller a message later; exactly one of delay_seconds and at_unix_timestamp."""
            return await self.reminders.set(me, request, key=key)

        @router.get("/reminders", responses=declare())
        async def list_own_reminders(me: AsAgent) -> ReminderPage:
            """The caller's pending reminders, soonest first."""
            return await self.reminders.list_own(me)

        @router.delete("/reminders/{reminder_id}", responses=declare(404))
        async def cancel_reminder(me: AsAgent, reminder_id: IdInPath) -> Reminder:
            """Delete one of the caller's own."""
            return await self.reminders.cancel(me, reminder_id)

        @router.post("/reminder-spills", responses=declare(body=True))
        async def get_spills(me: AsAgent, request: SpillsRequest) -> SpillsResult:
            """Which files of long reminders are still needed, for a daemon that tidies up after them."""
            return await self.reminders.get_spills(me, request)

        return router

    def build_operator(self) -> APIRouter:
        """For the operator's tree."""
        router = operator_router("reminders")

        @router.get("/reminders", responses=declare(404))
        async def list_reminders(
            *, agent: AgentName | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 100
        ) -> ReminderPage:
            """Pending reminders of all agents, or of one, soonest first."""
            return await self.reminders.get_page(agent=agent, limit=limit)

        @router.delete("/reminders/{reminder_id}", responses=declare(404))
        async def cancel_any_reminder(reminder_id: IdInPath) -> Reminder:
            """Delete a pending one of any agent, which is not told."""
            return await self.reminders.cancel_as_operator(reminder_id)

        return router
