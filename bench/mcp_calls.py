"""Requests of an MCP client as bytes: self-contained (2026-07-28) and of the handshake era (2025-11-25)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, Literal

from bench.load import Target, ask

Era = Literal["2026-07-28", "2025-11-25"]
MODERN: Era = "2026-07-28"
HANDSHAKE: Era = "2025-11-25"
ERAS: tuple[Era, ...] = (MODERN, HANDSHAKE)

_ids = itertools.count(1)


def encode_call(target: Target, era: Era, tool: str, arguments: Mapping[str, object]) -> bytes:
    """A `tools/call`."""
    params = {"name": tool, "arguments": arguments}
    # Only the self-contained era names the tool in a header as well.
    named = {"Mcp_Name": tool} if era == MODERN else {}
    return _encode(target, era, "tools/call", params, named)


async def list_tools(target: Target, era: Era) -> list[dict[str, Any]]:
    """The tools that the target lists."""
    body = await ask(target, _encode(target, era, "tools/list", {}, {}))
    # An event stream in the handshake era, JSON in the other one.
    text = body if body.startswith(b"{") else body.partition(b"data: ")[2]
    return list(json.loads(text)["result"]["tools"])


def _encode(
    target: Target, era: Era, method: str, params: Mapping[str, object], headers: Mapping[str, str]
) -> bytes:
    if era == MODERN:
        meta: dict[str, object] = {
            "io.modelcontextprotocol/protocolVersion": era,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": meta}
        headers = {**headers, "Mcp_Method": method}
    return target.encode(
        "POST",
        "/mcp",
        {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params},
        Accept="application/json, text/event-stream",
        MCP_Protocol_Version=era,
        **headers,
    )
