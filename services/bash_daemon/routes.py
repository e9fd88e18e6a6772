"""The surface's own HTTP route, besides MCP: its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter


@dataclass(frozen=True)
class ApiRoutes:
    """`/api`, under the agent's token."""

    describe: Callable[[], Mapping[str, Any]]

    def build(self) -> APIRouter:
        router = APIRouter(prefix="/api")

        @router.get("/state")
        async def get_state() -> Mapping[str, Any]:
            return self.describe()

        return router
