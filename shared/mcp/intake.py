"""What stands before the SDK: a body that is no JSON-RPC message is answered here, in our own words.

The SDK would answer some with its validator's text, a link and a piece of the input, and never with the id.
"""

from __future__ import annotations

import json
from typing import Final

import structlog
from mcp import types
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.mcp.jsonrpc import Fault, find_fault

_VERSION_HEADER: Final = b"mcp-protocol-version"
# Revisions with a handshake; the later ones give errors a status of their own.
_HANDSHAKE_YEARS: Final = (b"2024-", b"2025-")

log = structlog.get_logger(__name__)


class Intake:
    """Passes on to `app` what is a JSON-RPC message; answers the rest itself, in both eras."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        whole = await _read(receive)
        version = next((value for name, value in scope["headers"] if name == _VERSION_HEADER), b"")
        is_handshake = not version or version[:5] in _HANDSHAKE_YEARS
        fault = None if whole is None else find_fault(whole["body"], is_handshake=is_handshake)
        if fault is None:
            await self._app(scope, _replay(whole, receive), send)
            return
        log.info("rpc_refused", code=fault.code, reason=fault.message)
        await _answer(fault, is_handshake=is_handshake)(scope, receive, send)


async def _read(receive: Receive) -> Message | None:
    """The body in one piece; None when the caller has left before it was complete."""
    content = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        content += message.get("body", b"")
        if not message.get("more_body", False):
            return {"type": "http.request", "body": content, "more_body": False}


def _replay(whole: Message | None, receive: Receive) -> Receive:
    first: Message | None = whole or {"type": "http.disconnect"}

    async def again() -> Message:
        nonlocal first
        message, first = first, None
        return message or await receive()

    return again


def _answer(fault: Fault, *, is_handshake: bool) -> Response:
    error = {"code": fault.code, "message": fault.message}
    content = json.dumps({"jsonrpc": "2.0", "id": fault.id, "error": error})
    # The handshake era answers a request that was understood as one with 200, and its clients read no other.
    is_answered = fault.id is not None and fault.code == types.INVALID_PARAMS
    return Response(content, 200 if is_answered and is_handshake else 400, media_type="application/json")
