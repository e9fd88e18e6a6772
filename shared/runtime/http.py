"""The HTTP app of every daemon: guard, request ids, errors, `/healthz` and `/readyz`.

Units add routes or mount the MCP host; they decide who a token is and whether they are ready, nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NoReturn

import anyio
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import HiveError, OutcomeUnknown
from shared.runtime.answers import INTERNAL_MESSAGE, ErrorAnswer, answer_error
from shared.runtime.credential import TokenFile
from shared.runtime.faults import register_error_handlers
from shared.runtime.guard import Authenticate, Guard
from shared.runtime.ids import new_ulid
from shared.runtime.log import get_logger, hears_debug, request_id

MAX_BODY_BYTES = 1_048_576
CUT_MESSAGE = "this service stopped before the request was done; it may or may not have taken effect"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_-]{1,64}")

log = get_logger()


def create_http_app(
    *,
    unit: str,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[Any]],
    authenticate: Authenticate,
    ready: Callable[[], bool],
    max_body_bytes: int = MAX_BODY_BYTES,
    shortcut: Callable[[ASGIApp], ASGIApp] | None = None,
) -> FastAPI:
    """Build a guarded app without routes of its own but `/healthz` and `/readyz`.

    Args:
        unit: the title of the app.
        lifespan: opens and closes what the unit needs.
        authenticate: see `Guard`; its caller is `request.state.caller` in handlers.
        ready: whether the unit can serve; must be quick and must not raise.
        max_body_bytes: limit of a request's body.
        shortcut: wraps the framework, right behind the guard; what it raises is answered as from a route.
    """
    app = GuardedApp(
        guarded=partial(Guard, authenticate=authenticate, max_body_bytes=max_body_bytes),
        shortcut=shortcut or (lambda framework: framework),
        title=unit,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans could carry what callers send, and cost time in every request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    register_error_handlers(app)
    # The framework would answer in words of its own, and first.
    app.add_exception_handler(Exception, _leave_to_scope)

    async def healthz(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def readyz(_request: Request) -> JSONResponse:
        is_ready = ready()
        return JSONResponse({"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503)

    app.add_route("/healthz", healthz, include_in_schema=False)
    app.add_route("/readyz", readyz, include_in_schema=False)
    return app


def create_surface_app(
    *,
    unit: str,
    label: str,
    token: TokenFile,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[Any]],
    shortcut: Callable[[ASGIApp], ASGIApp],
) -> FastAPI:
    """The app of an agent's surface: its clients have the agent's token, and it serves as soon as it is up.

    Args:
        unit: see `create_http_app`, as for `lifespan` and `shortcut`.
        label: the agent's name, which is what callers are known as.
        token: the agent's.
        lifespan: opens and closes what the unit needs.
        shortcut: wraps the framework.
    """

    async def authenticate(_path: str, presented: str) -> object | None:
        return label if token.accepts(presented) else None

    return create_http_app(
        unit=unit, lifespan=lifespan, authenticate=authenticate, ready=lambda: True, shortcut=shortcut
    )


class GuardedApp(FastAPI):
    """The framework with what stands before it: outermost the request's id, then guard, then shortcut.

    Also before the framework's own layers, which have nothing to do for what the shortcut answers.
    """

    def __init__(
        self,
        *,
        guarded: Callable[[ASGIApp], ASGIApp],
        shortcut: Callable[[ASGIApp], ASGIApp],
        **options: Any,  # noqa: ANN401 - the framework's own
    ) -> None:
        super().__init__(**options)
        self._guarded = guarded
        self._shortcut = shortcut

    def build_middleware_stack(self) -> ASGIApp:
        """What a request goes through."""
        return RequestScope(self._guarded(self._shortcut(super().build_middleware_stack())))


class RequestScope:
    """Gives each request its id, and turns what nobody caught into an answer that says nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        current = _find_request_id(scope) or new_ulid()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", []), (b"x-request-id", current.encode())]
                message = {**message, "headers": headers}
            await send(message)

        started = time.monotonic()
        reset = request_id.set(current)
        facts = {"method": scope["method"], "path": scope["path"]}
        try:
            answer = await self._run(scope, receive, send_with_id, facts)
            # Once the answer has begun nothing can be added; the connection closes and the caller sees so.
            if answer is not None and status == 0:
                await answer(scope, receive, send_with_id)
            if hears_debug():
                seconds = round(time.monotonic() - started, 4)
                log.debug("request_finished", **facts, status=status, seconds=seconds)
        except anyio.get_cancelled_exc_class():
            # Only the server's own stop cancels a request from outside.
            log.warning("request_cut", **facts)
            if status == 0:
                with anyio.CancelScope(shield=True):
                    await answer_error(OutcomeUnknown(CUT_MESSAGE))(scope, receive, send_with_id)
            raise
        finally:
            request_id.reset(reset)

    async def _run(
        self, scope: Scope, receive: Receive, send: Send, facts: dict[str, Any]
    ) -> ErrorAnswer | None:
        """Run the app; the answer to give if it failed before it began to answer."""
        try:
            await self.app(scope, receive, send)
        except HiveError as exc:
            if exc.http_status >= 500:
                log.warning("request_failed", **facts, code=exc.code, reason=exc.message)
            return answer_error(exc)
        except Exception:
            log.exception("request_crashed", **facts)
            return ErrorAnswer(500, "internal", INTERNAL_MESSAGE)
        return None


async def _leave_to_scope(_request: Request, exc: Exception) -> NoReturn:
    raise exc


def _find_request_id(scope: Scope) -> str | None:
    """The caller's own id, if it sent exactly one that is safe to log and to echo."""
    values = [value for name, value in scope["headers"] if name.lower() == b"x-request-id"]
    if len(values) == 1 and _REQUEST_ID.fullmatch(values[0]):
        return str(values[0].decode("ascii"))
    return None
