"""One request and one answer, as the SDK's kernel sees it: nothing can be sent besides the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import anyio
from mcp import types
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request


class SingleExchange:
    """The SDK's `DispatchContext` of one HTTP request. What a tool would report on the way goes nowhere."""

    can_send_request = False

    def __init__(self, request_id: types.RequestId, request: Request) -> None:
        self.request_id = request_id
        self.transport = TransportContext(
            kind="streamable-http", can_send_request=False, headers=request.headers
        )
        self.message_metadata = ServerMessageMetadata(request_context=request, can_send_request=False)

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a request that is given up is cancelled."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> NoReturn:
        """Refuse: no answer could come."""
        del params, opts
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Drop it."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Drop it."""
