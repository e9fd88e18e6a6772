"""Calls answered as plain JSON, past the SDK's transports: those of tools that never report progress.

Between `intake` and the SDK. What a call means in either era is left to the SDK's own kernel; here is the
HTTP around it. Only what is as it should be is taken: all else goes to the transports, which have the
refusals. Host and Origin are the guard's. Why it is so: docs/adr/0018-past-the-transports.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import anyio
from mcp import types
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundModernRoute, classify_inbound_request
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from shared.mcp.single import SingleExchange

PATH: Final = "/mcp"

_VERSION_HEADER: Final = "mcp-protocol-version"
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})
_MAX_NUMBER: Final = 2**63
_to_json: Final = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A request that can be answered here. `is_handshake`: of a revision that has one."""

    id: types.RequestId
    params: dict[str, Any]
    connection: Connection
    is_handshake: bool


class PlainCalls:
    """Finds and answers calls of `tools`, which must be tools that report nothing and mirror no argument."""

    def __init__(self, server: Server[Any], *, tools: frozenset[str]) -> None:
        self._server = server
        self._tools = tools

    def find(self, scope: Scope, message: Mapping[str, Any]) -> PlainCall | None:
        """The call that a POST makes, if it is one of these and nothing about it is out of the ordinary.

        Args:
            scope: the request's.
            message: its body, known to be a JSON-RPC request or notification.
        """
        params = message.get("params")
        if message["method"] != "tools/call" or message.keys() != _MEMBERS or not isinstance(params, dict):
            return None
        if params["name"] not in self._tools or _is_huge(message["id"]) or not _is_for_mcp(scope):
            return None
        headers = _read_once(scope)
        if headers is None or not _takes_either(headers.get("accept", "")):
            return None
        version = headers.get(_VERSION_HEADER, types.DEFAULT_NEGOTIATED_VERSION)
        if is_handshake := version in HANDSHAKE_PROTOCOL_VERSIONS:
            connection = Connection.from_envelope(version, None, None)
        else:
            route = classify_inbound_request(message, headers=headers)
            if not isinstance(route, InboundModernRoute):
                return None
            connection = Connection.from_envelope(
                route.protocol_version, route.client_info, route.client_capabilities
            )
        return PlainCall(message["id"], params, connection, is_handshake)

    async def answer(self, call: PlainCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a call and send its result; a caller who leaves ends it."""
        with anyio.CancelScope() as running:
            # From the first moment: rows that were handed out for who has left must find their way back.
            watcher = asyncio.get_running_loop().create_task(_watch(receive, running))
            try:
                status, answer = await self._run(call, Request(scope))
            finally:
                watcher.cancel()
            content = _to_json({"jsonrpc": "2.0", "id": call.id, **answer}).encode()
            headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    async def _run(self, call: PlainCall, request: Request) -> tuple[int, dict[str, Any]]:
        exchange = SingleExchange(call.id, request)
        try:
            result = await serve_one(
                self._server,
                exchange,
                "tools/call",
                call.params,
                connection=call.connection,
                lifespan_state={},
            )
        except Exception as exc:  # noqa: BLE001 - the SDK's own table, which logs what it has no words for
            error = modern_error_data(exc)
            # The handshake era answers whatever was understood as a request with 200.
            status = 200 if call.is_handshake else ERROR_CODE_HTTP_STATUS.get(error.code, 200)
            return status, {"error": error.model_dump(mode="json", exclude_none=True)}
        return 200, {"result": result}


def _is_huge(request_id: types.RequestId) -> bool:
    """Whether it has so many digits that Python may refuse to write them."""
    return isinstance(request_id, int) and abs(request_id) >= _MAX_NUMBER


def _is_for_mcp(scope: Scope) -> bool:
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) == PATH


def _read_once(scope: Scope) -> dict[str, str] | None:
    """The headers, if each occurs once: which one of several counts is not decided here."""
    raw = scope["headers"]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    return headers if len(headers) == len(raw) else None


@lru_cache(64)
def _takes_either(accept: str) -> bool:
    """Whether JSON and event streams are both taken: who takes less is refused, as the protocol has it."""
    named = [(b"accept", accept.encode("latin-1"))]
    return all(check_accept_headers(Request({"type": "http", "headers": named})))


async def _watch(receive: Receive, call: anyio.CancelScope) -> None:
    """End the call when its caller leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()
