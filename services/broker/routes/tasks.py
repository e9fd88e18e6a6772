"""Background tasks of agents, for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query

from services.broker.routes.callers import NameInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.tasks import TaskService
from shared.wire.tasks import TaskId, TaskKill, TaskPage

IncludeEnded = Annotated[bool, Query(description="also those that have ended, as far as they are reported")]
Limit = Annotated[int, Query(ge=1, le=5_000)]


@dataclass(frozen=True)
class TaskRoutes:
    """The service behind them."""

    tasks: TaskService

    def build(self) -> APIRouter:
        router = operator_router("tasks")

        @router.get("/tasks", response_model_exclude_none=True, responses=declare())
        async def list_tasks(include_ended: IncludeEnded = False, limit: Limit = 500) -> TaskPage:
            """Tasks of all agents, as their surfaces last reported them."""
            return await self.tasks.get_page(None, include_ended=include_ended, limit=limit)

        @router.get("/agents/{name}/tasks", response_model_exclude_none=True, responses=declare(404))
        async def list_agent_tasks(
            name: NameInPath, include_ended: IncludeEnded = False, limit: Limit = 500
        ) -> TaskPage:
            """Tasks of one agent."""
            return await self.tasks.get_page(name, include_ended=include_ended, limit=limit)

        @router.post(
            "/agents/{name}/tasks/{task_id}/kill", response_model_exclude_none=True, responses=declare(404)
        )
        async def kill_task(
            name: NameInPath, task_id: Annotated[TaskId, Path(description="a task's id")]
        ) -> TaskKill:
            """Have a task ended by its surface; says whether that has heard of it."""
            return await self.tasks.kill(name, task_id)

        return router
