"""The control path of the agent tree: one stream of JSON lines down a daemon, reports up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, status
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from services.broker.routes.callers import AsAgent
from services.broker.routes.failures import Responses, declare
from services.broker.routes.trees import agent_router
from services.broker.service.callers import AgentCaller
from services.broker.service.control import ControlService
from services.broker.service.stream import ControlStream
from shared.wire.control import Hello, Report

MEDIA_TYPE = "application/x-ndjson"


class ControlResponse(StreamingResponse):
    """A daemon's stream; when it ends, however that comes, the daemon counts as disconnected."""

    media_type = MEDIA_TYPE

    def __init__(self, control: ControlService, caller: AgentCaller, stream: ControlStream) -> None:
        super().__init__(_encode(stream), headers={"Cache-Control": "no-store"})
        self._control, self._caller, self._stream = control, caller, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._control.disconnect(self._caller, self._stream)


async def _encode(stream: ControlStream) -> AsyncIterator[bytes]:
    async for event in stream.events():
        yield event.model_dump_json().encode() + b"\n"


@dataclass(frozen=True)
class ControlRoutes:
    """The service behind the control path."""

    control: ControlService

    def build(self) -> APIRouter:
        router = agent_router("control")
        stream_answer: Responses = {
            200: {
                "description": "one ControlEvent a line, for as long as both sides like",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ControlEvent"}}},
            }
        }

        @router.post(
            "/control",
            response_class=StreamingResponse,
            response_model=None,
            responses=declare(409, 429, body=True) | stream_answer,
        )
        async def connect(me: AsAgent, hello: Hello) -> ControlResponse:
            """Open the daemon's stream; its first line holds the grants."""
            return ControlResponse(self.control, me, await self.control.connect(me, hello))

        @router.post("/reports", status_code=status.HTTP_204_NO_CONTENT, responses=declare(409, body=True))
        async def report(me: AsAgent, request: Report) -> None:
            """Say what changed in the daemon."""
            await self.control.report(me, request)

        return router
