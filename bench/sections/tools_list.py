"""How much of a model's context the surface's tools take: the bytes of `tools/list`."""

from __future__ import annotations

import asyncio
import json

from bench.compare import Bounds, Result
from bench.hive import Hive
from bench.mcp_calls import MODERN, list_tools


def run(_bounds: Bounds, hive: Hive) -> Result:
    """Bytes of the tools as compact JSON, together and one by one."""
    tools = asyncio.run(list_tools(hive.surface("iris"), MODERN))
    return {"bytes": _size(tools), "bytes_a_tool": {tool["name"]: _size(tool) for tool in tools}}


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
