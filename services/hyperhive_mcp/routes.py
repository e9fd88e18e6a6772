"""The surface's own HTTP routes, besides MCP: the agent's state, and waiting for a turn to be due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from services.hyperhive_mcp.service.wake import WakeLevel

MAX_WAIT_SECONDS: Final = 30


class WaitQuery(BaseModel):
    """The parameters of `/api/wait`; more than 30 seconds are taken for 30."""

    model_config = ConfigDict(extra="forbid")

    timeout_seconds: Annotated[int, Field(ge=0)] = MAX_WAIT_SECONDS


@dataclass(frozen=True)
class ApiRoutes:
    """`/api`, under the agent's token.

    Args:
        describe: the agent's state.
        wake: says whether a turn is due.
    """

    describe: Callable[[], Mapping[str, Any]]
    wake: WakeLevel

    def build(self) -> APIRouter:
        router = APIRouter(prefix="/api")

        @router.get("/state")
        async def get_state() -> Mapping[str, Any]:
            return self.describe()

        @router.get("/wait")
        async def wait(request: Request, query: Annotated[WaitQuery, Query()]) -> dict[str, Any]:
            # Here, and not in the task group, which would wrap the refusal.
            self.wake.check_room()
            reasons: list[str] = []
            async with anyio.create_task_group() as tasks:

                async def leave_with_caller() -> None:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave_with_caller)
                reasons = await self.wake.wait(min(query.timeout_seconds, MAX_WAIT_SECONDS))
                tasks.cancel_scope.cancel()
            return {"due": bool(reasons), "reasons": reasons}

        return router
