"""Streams that would never end by themselves, ended when the process stops; calls in progress are left alone.

Sits around the SDK's ASGI app. Without it sse-starlette cuts every event stream half a second after SIGTERM,
and so the answers of calls of the handshake era.
"""

from __future__ import annotations

import anyio
from sse_starlette.sse import AppStatus
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class IdleStreams:
    """Passes requests on to `app`, and ends its GET streams at `close`.

    A GET is the handshake era's channel for notifications, of which a stateless server has none. A client
    whose stream ends opens it again; an error instead would count against the server.
    """

    def __init__(self, app: ASGIApp) -> None:
        # The library's only switch, for the whole process.
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._closed = False

    def close(self) -> None:
        """End the open streams; later ones end at once. Call it in the event loop."""
        self._closed = True
        for stream in self._open:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            await self._stream(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with anyio.CancelScope() as stream:
            if self._closed:
                stream.cancel()
            self._open.add(stream)
            try:
                await anyio.lowlevel.checkpoint()
                await self._app(scope, receive, watch)
            finally:
                self._open.discard(stream)
        if stream.cancelled_caught and started:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif stream.cancelled_caught:
            await Response(media_type="text/event-stream")(scope, receive, send)
