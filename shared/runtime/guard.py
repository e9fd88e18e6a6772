"""The gate before every HTTP endpoint: Host, Origin, credential, framing, body type and size, in this order.

Pure ASGI, so that streams pass through unbuffered. It decides who calls, not what the caller may do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import Unauthenticated
from shared.runtime.answers import ErrorAnswer, answer_error

Authenticate = Callable[[str, str], Awaitable[object | None]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
BODY_SECONDS = 30.0
# Which of several would count is for nobody to guess. MCP's own headers have their own refusal.
_SINGLE = {b"idempotency-key": "Idempotency-Key", b"x-hive-turn": "X-Hive-Turn"}
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_BEARER = re.compile(rb"bearer +([\x21-\x7e]{1,512})", re.IGNORECASE)


class Guard:
    """Lets a request through to `app`, with its caller in `scope["state"]["caller"]`, or answers it itself.

    Args:
        app: what is guarded.
        authenticate: path and token to a caller, or None for a token that is not valid there; compares in
            constant time.
        max_body_bytes: limit of a request's body.
    """

    def __init__(self, app: ASGIApp, *, authenticate: Authenticate, max_body_bytes: int) -> None:
        self.app = app
        self._authenticate = authenticate
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # No surface speaks it, and a browser sends it without asking.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = _Head.read(scope)
        answer = check_host(request) or check_origin(request)
        if answer is None and not (scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")):
            answer = await self._admit(scope, request)
        answer = (
            answer
            or check_framing(request)
            or check_content_type(request)
            or self._check_declared_size(request)
        )
        if answer is None:
            body = _Body(receive, self._max_body_bytes)
            answer = await (body.fill_in_time() if request.has_body else body.fill())
            if answer is None and not body.is_whole:
                return
            receive = body.replay
        await (answer or self.app)(scope, receive, send)

    async def _admit(self, scope: Scope, request: _Head) -> ErrorAnswer | None:
        """Find out who calls. Every refusal looks the same, whatever was wrong with the credential."""
        match = _BEARER.fullmatch(request.only(b"authorization") or b"")
        caller = await self._authenticate(scope["path"], match[1].decode("ascii")) if match else None
        if caller is None:
            return answer_error(Unauthenticated("a valid bearer token is required"))
        scope["state"] = {**scope.get("state", {}), "caller": caller}
        return None

    def _check_declared_size(self, request: _Head) -> ErrorAnswer | None:
        length = request.only(b"content-length") or b"0"
        if length.isdigit() and int(length[:20]) > self._max_body_bytes:
            return _too_large(self._max_body_bytes)
        return None


@dataclass(frozen=True)
class _Head:
    """Headers by name, each with all of its values, and the port of the socket the request came in by."""

    port: int
    headers: dict[bytes, list[bytes]] = field(default_factory=dict)

    @classmethod
    def read(cls, scope: Scope) -> _Head:
        # The accepted connection's own address: right also for a socket that was inherited.
        server = scope.get("server")
        head = cls((server[1] if server else None) or 80)
        for name, value in scope["headers"]:
            head.headers.setdefault(name.lower(), []).append(value.strip())
        return head

    def only(self, name: bytes) -> bytes | None:
        """The value of a header that occurs exactly once."""
        values = self.headers.get(name, [])
        return values[0] if len(values) == 1 else None

    @property
    def own_hosts(self) -> frozenset[bytes]:
        """What a browser or client calls us by when it was not tricked into it."""
        return _list_hosts(self.port)

    @property
    def has_body(self) -> bool:
        return b"transfer-encoding" in self.headers or self.headers.get(b"content-length", [b"0"]) != [b"0"]


class _Body:
    """A request's body, read up to the limit before the app starts, then given to it in one piece.

    A caller who leaves before it is complete has asked for nothing: `is_whole` stays false. A body that was
    not announced is empty, and there at once.
    """

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._content = bytearray()
        self._whole: Message | None = None

    async def fill_in_time(self) -> ErrorAnswer | None:
        """Read it all, or until the caller leaves; the answer when it is too large or too slow."""
        try:
            # Not anyio's scope: this is on the way of every request, and costs a fraction.
            async with asyncio.timeout(BODY_SECONDS):
                return await self.fill()
        except TimeoutError:
            return ErrorAnswer(
                408,
                "timeout",
                f"the body did not arrive within {BODY_SECONDS:.0f} s",
                headers={"Connection": "close"},
            )

    async def fill(self) -> ErrorAnswer | None:
        """The same, however long it takes."""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return None
            self._content += message.get("body", b"")
            if len(self._content) > self._limit:
                return _too_large(self._limit)
            if not message.get("more_body", False):
                self._whole = {**message, "body": bytes(self._content)}
                return None

    @property
    def is_whole(self) -> bool:
        return self._whole is not None

    async def replay(self) -> Message:
        """Stand in for `receive`: the whole body once, then what really comes."""
        whole, self._whole = self._whole, None
        return whole or await self._receive()


@lru_cache(64)
def _list_hosts(port: int) -> frozenset[bytes]:
    named = {f"{host}:{port}" for host in _HOSTS}
    return frozenset(name.encode() for name in (named | set(_HOSTS) if port == 80 else named))


def check_host(request: _Head) -> ErrorAnswer | None:
    """421 unless Host, once, is a loopback name with our own port: anything else is DNS rebinding."""
    host = request.only(b"host")
    if host is not None and host.lower() in request.own_hosts:
        return None
    return ErrorAnswer(
        421, "wrong_host", f"the Host header must be 127.0.0.1, localhost or [::1] with port {request.port}"
    )


def check_origin(request: _Head) -> ErrorAnswer | None:
    """403 when a page of another origin sent this, `null` included; programs send no Origin."""
    if b"origin" not in request.headers:
        return None
    origin = (request.only(b"origin") or b"").lower()
    if origin.startswith(b"http://") and origin.removeprefix(b"http://") in request.own_hosts:
        return None
    return ErrorAnswer(403, "foreign_origin", "requests from other origins are refused")


def check_framing(request: _Head) -> ErrorAnswer | None:
    """400 for a transfer coding but `chunked`: nobody undoes it. 422 for two of what may be there once."""
    codings = request.headers.get(b"transfer-encoding")
    if codings is not None and [coding.lower() for coding in codings] != [b"chunked"]:
        return ErrorAnswer(400, "invalid_input", "the only Transfer-Encoding that is served is `chunked`")
    for name, shown in _SINGLE.items():
        if len(request.headers.get(name, ())) > 1:
            return ErrorAnswer(422, "invalid_input", f"header {shown}: must be there only once")
    return None


def check_content_type(request: _Head) -> ErrorAnswer | None:
    """415 for a body that is not `application/json`: what a plain HTML form can send is never read."""
    if not request.has_body:
        return None
    essence = (request.only(b"content-type") or b"").partition(b";")[0].strip().lower()
    if essence == b"application/json":
        return None
    return ErrorAnswer(415, "unsupported_media_type", "send the body as Content-Type: application/json")


def _too_large(limit: int) -> ErrorAnswer:
    # The connection stays open: uvicorn drops the rest, while a reset could overtake this answer.
    return ErrorAnswer(413, "limit_exceeded", f"the body is over the limit of {limit} bytes")
