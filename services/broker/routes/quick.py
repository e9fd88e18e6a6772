"""The busiest routes of the agent tree, answered right behind the guard: the framework costs more than these.

Only what is as it should be is answered here. Everything else goes on to the app, where the same routes stand
with their documents and error texts: which way a request went must not show.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette import status
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.broker.routes.callers import KEY_HEADER, KEY_PATTERN
from services.broker.service.agents import AgentService
from services.broker.service.callers import AgentCaller
from services.broker.service.inbox import InboxService
from services.broker.service.messages import MessageService
from shared.wire.messages import AckRequest, RecvRequest, SendRequest

_KEY_HEADER = KEY_HEADER.lower().encode()
_KEY = re.compile(KEY_PATTERN.encode())
_META_PATH = "/v1/agent/meta"
# No name, or one that could be an agent's: nothing in it is escaped.
_META_QUERY = re.compile(rb"(?:name=([a-z0-9-]{1,64}))?")
_JSON = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class _Quick:
    """One route: how its body is read, who answers, and with which status."""

    request: type[BaseModel]
    answer: Callable[[AgentCaller, Any, str | None], Awaitable[BaseModel]]
    status: int = status.HTTP_200_OK


class QuickRoutes:
    """Stands before `app` and answers for it where it can."""

    def __init__(
        self, app: ASGIApp, *, messages: MessageService, inbox: InboxService, agents: AgentService
    ) -> None:
        self._app = app
        self._agents = agents
        self._routes: Mapping[str, _Quick] = {
            "/v1/agent/messages": _Quick(
                SendRequest,
                lambda me, request, key: messages.send(me, request, key=key),
                status.HTTP_201_CREATED,
            ),
            "/v1/agent/inbox/recv": _Quick(
                RecvRequest, lambda me, request, key: inbox.recv(me, request, key=key)
            ),
            "/v1/agent/inbox/ack": _Quick(AckRequest, lambda me, request, _key: inbox.ack(me, request)),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == _META_PATH:
            await self._show_meta(scope, receive, send)
            return
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        # Whole: the guard has read it.
        body = await receive()
        caller = scope["state"].get("caller")
        keys = [value for name, value in scope["headers"] if name == _KEY_HEADER]
        request = _parse(route.request, body.get("body", b""))
        if request is None or not isinstance(caller, AgentCaller) or not _are_plain(keys):
            await self._app(scope, _replay(body, receive), send)
            return
        result = await route.answer(caller, request, keys[0].decode("ascii") if keys else None)
        await _write(send, route.status, result)

    async def _show_meta(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope["state"].get("caller")
        query = _META_QUERY.fullmatch(scope["query_string"])
        if query is None or not isinstance(caller, AgentCaller):
            await self._app(scope, receive, send)
            return
        name = None if query[1] is None else query[1].decode("ascii")
        meta = await self._agents.get_meta(caller, name)
        await _write(send, status.HTTP_200_OK, meta, exclude_none=True)


async def _write(send: Send, code: int, result: BaseModel, *, exclude_none: bool = False) -> None:
    """Answer as the framework does, without checking once more what a service has made."""
    content = result.__pydantic_serializer__.to_json(result, exclude_none=exclude_none)
    headers = [(b"content-length", b"%d" % len(content)), _JSON]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _parse(model: type[BaseModel], body: bytes) -> BaseModel | None:
    """The request, if it is one; what is wrong with it the app says."""
    try:
        return model.__pydantic_validator__.validate_json(body)  # type: ignore[no-any-return]
    except ValidationError:
        return None


def _are_plain(keys: list[bytes]) -> bool:
    return not keys or (len(keys) == 1 and _KEY.fullmatch(keys[0]) is not None)


def _replay(first: Message, receive: Receive) -> Receive:
    """Stand in for `receive`: what was taken from it, then what really comes."""
    waiting = [first]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
