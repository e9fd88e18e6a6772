"""`/v1/operator`: the hive, its agents and what they may do. Agents' credentials open nothing here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, status

from services.broker.routes.callers import NameInPath
from services.broker.routes.document import get_document
from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.access import AccessService
from services.broker.service.agents import AgentService
from services.broker.service.hive import HiveService
from shared.wire.agents import (
    Agent,
    CreateAgent,
    HiveInfo,
    PermissionsChange,
    PermissionsResult,
    RotateToken,
)


@dataclass(frozen=True)
class OperatorRoutes:
    """The services behind the operator's routes on the hive and its agents."""

    hive: HiveService
    agents: AgentService
    access: AccessService

    def build(self) -> APIRouter:
        router = operator_router("operator")
        self._add_hive(router)
        self._add_agents(router)
        self._add_access(router)
        return router

    def _add_hive(self, router: APIRouter) -> None:
        @router.get("/hive", responses=declare())
        async def get_hive() -> HiveInfo:
            """The hive as a whole."""
            return await self.hive.get_info()

        @router.get("/openapi.json", responses=declare())
        async def get_openapi(request: Request) -> dict[str, Any]:
            """This document."""
            return get_document(request.app)

    def _add_agents(self, router: APIRouter) -> None:
        @router.get("/agents", responses=declare())
        async def list_agents(*, destroyed: bool = False) -> list[Agent]:
            """All agents by age; with `destroyed` also those that are no more."""
            return await self.agents.list_agents(destroyed=destroyed)

        @router.post(
            "/agents",
            status_code=status.HTTP_201_CREATED,
            responses=declare(404, 409, 429, body=True),
        )
        async def create_agent(request: CreateAgent) -> Agent:
            """Create an agent; its token was made by the caller and is known here by its hash only."""
            return await self.agents.create(request)

        @router.get("/agents/{name}", responses=declare(404))
        async def get_agent(name: NameInPath) -> Agent:
            """One agent."""
            return await self.agents.get(name)

    def _add_access(self, router: APIRouter) -> None:
        @router.patch("/agents/{name}/permissions", responses=declare(404, body=True))
        async def change_permissions(name: NameInPath, change: PermissionsChange) -> PermissionsResult:
            """Change what an agent may do; in force on its next call."""
            return await self.access.change_permissions(name, change)

        @router.post(
            "/agents/{name}/token",
            status_code=status.HTTP_204_NO_CONTENT,
            responses=declare(404, 409, body=True),
        )
        async def rotate_token(name: NameInPath, request: RotateToken) -> None:
            """Accept a new token; earlier ones end after the grace."""
            await self.access.rotate_token(name, request)

        @router.delete(
            "/agents/{name}/token/retiring",
            status_code=status.HTTP_204_NO_CONTENT,
            responses=declare(404),
        )
        async def drop_retiring_tokens(name: NameInPath) -> None:
            """End earlier tokens at once."""
            await self.access.drop_retiring_tokens(name)
