"""What stands before the SDK: a body that is no JSON-RPC message is answered here, in our own words.

The SDK would answer some with its validator's text, a link and a piece of the input, and never with the id.
"""

from __future__ import annotations

import json
from typing import Any, Final

import structlog
from mcp import types
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.mcp.jsonrpc import Fault, parse_message
from shared.mcp.plain import PlainCalls

_VERSION_HEADER: Final = b"mcp-protocol-version"
# Revisions with a handshake; the later ones give errors a status of their own.
_HANDSHAKE_YEARS: Final = (b"2024-", b"2025-")
_VERSIONS: Final = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
_MAX_SHOWN: Final = 40

log = structlog.get_logger(__name__)


class Intake:
    """Has JSON-RPC messages answered, by `plain` if it takes them, else by `app`; answers the rest itself."""

    def __init__(self, app: ASGIApp, *, plain: PlainCalls) -> None:
        self._app = app
        self._plain = plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        whole = await _read(receive)
        if whole is None:
            # The caller has left.
            return
        version = next((value for name, value in scope["headers"] if name == _VERSION_HEADER), b"")
        is_handshake = not version or version[:5] in _HANDSHAKE_YEARS
        message = parse_message(whole["body"], is_handshake=is_handshake)
        if not isinstance(message, Fault):
            message = _find_unknown_version(message, version) or message
        if isinstance(message, Fault):
            log.info("rpc_refused", code=message.code, reason=message.message)
            await _answer(message, is_handshake=is_handshake)(scope, receive, send)
        elif (call := self._plain.find(scope, message)) is not None:
            await self._plain.answer(call, scope, receive, send)
        else:
            await self._app(scope, _replay(whole, receive), send)


def _find_unknown_version(message: dict[str, Any], version: bytes) -> Fault | None:
    """The refusal of a request whose revision is named by its header alone, and is none that is served.

    Where the body names one as well, the SDK has the words; without, it would miss no more than that.
    """
    if not version or version.decode("latin-1") in _VERSIONS or "id" not in message:
        return None
    meta = (message.get("params") or {}).get("_meta") or {}
    if types.PROTOCOL_VERSION_META_KEY in meta:
        return None
    data = {"supported": _VERSIONS, "requested": version[:_MAX_SHOWN].decode("latin-1")}
    text = f"Unsupported protocol version; these are served: {', '.join(_VERSIONS)}"
    return Fault(types.UNSUPPORTED_PROTOCOL_VERSION, text, message["id"], data)


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


def _replay(whole: Message, receive: Receive) -> Receive:
    first: Message | None = whole

    async def again() -> Message:
        nonlocal first
        message, first = first, None
        return message or await receive()

    return again


def _answer(fault: Fault, *, is_handshake: bool) -> Response:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    content = json.dumps({"jsonrpc": "2.0", "id": fault.id, "error": error})
    # The handshake era answers a request that was understood as one with 200, and its clients read no other.
    is_answered = fault.id is not None and fault.code == types.INVALID_PARAMS
    return Response(content, 200 if is_answered and is_handshake else 400, media_type="application/json")
