"""How tests speak to a hive, whoever runs its processes: HTTP under a credential, and MCP in both eras.

Only public interfaces: URLs, tokens from their files, `mcp.json`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from shared.wire.model import MAX_ID
from tests.support.claude import Era
from tests.support.script import JsonObject

MODERN: Era = "2026-07-28"
LEGACY: Era = "2025-11-25"
HTTP_SECONDS = 45.0


@dataclass(frozen=True)
class Answer:
    """A tool result."""

    text: str
    is_error: bool
    shape: JsonObject | None = None

    def ok(self) -> str:
        """The text of a result that must be no error."""
        assert not self.is_error, self.text
        return self.text

    def error(self) -> str:
        """The text of a result that must be an error."""
        assert self.is_error, self.text
        return self.text


def request(
    method: str, url: str, *, token: str | None = None, body: Any = None, **more: Any
) -> httpx2.Response:
    """One HTTP request without proxies, cookies or redirects."""
    headers = {**({} if token is None else {"authorization": f"Bearer {token}"}), **more.pop("headers", {})}
    # Without TLS there is nothing to verify, and to load the authorities' certificates takes long.
    options = {"timeout": HTTP_SECONDS, "trust_env": False, "verify": False}
    options |= {} if body is None else {"json": body}
    return httpx2.request(method, url, headers=headers, **(options | more))


@dataclass(frozen=True)
class OperatorAccess:
    """The operator's tree of the broker."""

    broker_url: str
    token_file: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def http(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """A request below `/v1/operator`, whatever comes of it."""
        return request(method, f"{self.broker_url}/v1/operator{path}", token=self.token, body=body, **more)

    def json(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The same, which must succeed; answers its JSON."""
        response = self.http(method, path, body, **more)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def send(self, to: str, body: str, **more: Any) -> int:
        """Send as the operator; answers the id."""
        return int(self.json("POST", "/messages", {"to": to, "body": body, **more})["sent"][0]["id"])


@dataclass(frozen=True)
class AgentAccess:
    """One agent: its surface by MCP, and the broker's agent tree under its credential."""

    name: str
    broker_url: str
    token_file: Path
    mcp_config: Path
    state_dir: Path
    surface: str = "hyperhive"

    def at(self, surface: str) -> AgentAccess:
        """The same agent, whose MCP calls go to another of its surfaces."""
        return replace(self, surface=surface)

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    @property
    def server(self) -> JsonObject:
        """The entry of the surface in `mcp.json`."""
        return dict(json.loads(self.mcp_config.read_text())["mcpServers"][self.surface])

    @property
    def mcp_url(self) -> str:
        return str(self.server["url"])

    @property
    def surface_url(self) -> str:
        return self.mcp_url.removesuffix("/mcp")

    def http(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """A request below `/v1/agent` of the broker, whatever comes of it."""
        return request(method, f"{self.broker_url}/v1/agent{path}", token=self.token, body=body, **more)

    def json(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The same, which must succeed; answers its JSON."""
        response = self.http(method, path, body, **more)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def drain(self) -> None:
        """Empty the inbox: hand out everything, then ack everything."""
        while self.json("POST", "/inbox/recv", {"max": 5})["messages"]:
            continue
        self.json("POST", "/inbox/ack", {"up_to": MAX_ID})

    @asynccontextmanager
    async def client(self, era: Era = MODERN, **more: Any) -> AsyncIterator[Client]:
        """An MCP client with the headers of `mcp.json`, connected and negotiated to `era`."""
        headers = dict(self.server["headers"])
        async with httpx2.AsyncClient(headers=headers, timeout=HTTP_SECONDS, trust_env=False) as http:
            transport = streamable_http_client(self.mcp_url, http_client=http)
            async with Client(transport, mode="legacy" if era == LEGACY else "auto", **more) as client:
                assert client.protocol_version == era
                yield client

    async def acall(self, tool: str, /, *, era: Era = MODERN, **arguments: Any) -> Answer:
        """Call a tool over a connection of its own."""
        async with self.client(era) as client:
            return answer_of(await client.call_tool(tool, arguments))

    def call(self, tool: str, /, *, era: Era = MODERN, **arguments: Any) -> Answer:
        """`acall` for tests that are not async."""
        return anyio.run(partial(self.acall, tool, era=era, **arguments))

    def list_tools(self, era: Era = MODERN) -> list[JsonObject]:
        """The definitions as they are on the wire."""
        return anyio.run(self._list_tools, era)

    async def _list_tools(self, era: Era) -> list[JsonObject]:
        async with self.client(era) as client:
            tools = (await client.list_tools()).tools
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


def answer_of(result: types.CallToolResult) -> Answer:
    """What a client got, without the SDK's types."""
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    shape = result.structured_content
    return Answer(text, bool(result.is_error), dict(shape) if shape is not None else None)
