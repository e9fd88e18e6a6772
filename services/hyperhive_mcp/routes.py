"""The surface's own HTTP routes, besides MCP: the agent's state, and waiting for a turn to be due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Query, Request

from services.hyperhive_mcp.service.wake import WakeLevel

MAX_WAIT_SECONDS: Final = 30.0


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
        async def wait(
            request: Request,
            timeout_seconds: Annotated[float, Query(ge=0, allow_inf_nan=False)] = MAX_WAIT_SECONDS,
        ) -> dict[str, Any]:
            # Here, and not in the task group, which would wrap the refusal.
            self.wake.check_room()
            reasons: list[str] = []
            async with anyio.create_task_group() as tasks:

                async def leave_with_caller() -> None:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave_with_caller)
                reasons = await self.wake.wait(min(timeout_seconds, MAX_WAIT_SECONDS))
                tasks.cancel_scope.cancel()
            return {"due": bool(reasons), "reasons": reasons}

        return router
