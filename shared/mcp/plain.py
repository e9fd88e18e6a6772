"""Calls that are answered as plain JSON: those of tools that never report progress.

Between `intake` and the SDK. An event stream on which nothing but one result comes costs about as much as the
rest of a call, and in both eras the choice is the server's. A caller who leaves ends its call here as there.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH: Final = "/mcp"


class PlainAnswers:
    """Passes calls of `tools` on to `plain`, everything else to `streaming`.

    Args:
        streaming: the SDK's app that may answer with an event stream.
        plain: the one that answers with JSON, and does not look whether its caller is still there.
        tools: names of tools that never report progress.
    """

    def __init__(self, streaming: ASGIApp, *, plain: ASGIApp, tools: frozenset[str]) -> None:
        self._streaming = streaming
        self._plain = plain
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not _is_for_mcp(scope):
            await self._streaming(scope, receive, send)
            return
        first = await receive()
        if self._is_plain(scope, first):
            await self._answer(scope, first, receive, send)
        else:
            await self._streaming(scope, _after(first, receive), send)

    def _is_plain(self, scope: Scope, first: Message) -> bool:
        if first["type"] != "http.request" or first.get("more_body", False):
            return False
        # Whoever takes no event stream is refused, as the protocol has it, and that is the other one's to do.
        if not any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"]):
            return False
        try:
            message = json.loads(first["body"])
            return message["method"] == "tools/call" and message["params"]["name"] in self._tools
        except (ValueError, LookupError, TypeError, RecursionError):
            return False

    async def _answer(self, scope: Scope, first: Message, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as call:
            watcher = asyncio.get_running_loop().create_task(_watch(receive, call))
            try:
                await self._plain(scope, _after(first, _wait_for_nothing), send)
            finally:
                watcher.cancel()


async def _watch(receive: Receive, call: anyio.CancelScope) -> None:
    """End the call when its caller leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


async def _wait_for_nothing() -> Message:
    """Stand in for `receive` where the body is all that may be read."""
    await anyio.sleep_forever()
    raise AssertionError


def _after(first: Message, receive: Receive) -> Receive:
    """Stand in for `receive`: what was read already, then what really comes."""
    waiting: Message | None = first

    async def again() -> Message:
        nonlocal waiting
        message, waiting = waiting, None
        return message or await receive()

    return again


def _is_for_mcp(scope: Scope) -> bool:
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) == PATH
