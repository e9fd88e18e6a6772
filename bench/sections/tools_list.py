"""How much of a model's context the surfaces' tools take: the bytes of `tools/list`."""

from __future__ import annotations

import asyncio
import json

from bench.compare import Bounds, Result
from bench.hive import Hive
from bench.mcp_calls import MODERN, list_tools

SURFACES = ("hyperhive", "bash")


def run(_bounds: Bounds, hive: Hive) -> Result:
    """Bytes of the tools as compact JSON, of all surfaces together, one by one, and tool by tool."""
    listed = {key: asyncio.run(list_tools(hive.surface("iris", key), MODERN)) for key in SURFACES}
    sizes = {key: _size(tools) for key, tools in listed.items()}
    tools = {f"{key}.{tool['name']}": _size(tool) for key, found in listed.items() for tool in found}
    return {"bytes": sum(sizes.values()), "bytes_a_surface": sizes, "bytes_a_tool": tools}


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
