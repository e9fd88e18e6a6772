"""Tool results of bounded size: prose as text, shapes as `structuredContent` and the same JSON as text."""

from __future__ import annotations

import json

from mcp import types
from pydantic import BaseModel

from shared.errors import LimitExceeded
from shared.prose import cut_utf8
from shared.wire.messages import MAX_RESULT_BYTES

_CUT = "\n[cut: the answer was over {limit} bytes]"


def prose(text: str) -> types.CallToolResult:
    """An answer in words; what is over 40,000 bytes is cut with a note (tools keep below it themselves)."""
    # Not `model_construct`: it is Python, and takes four times as long as a check in Rust.
    return types.CallToolResult(content=[types.TextContent(type="text", text=cap(text))])


def failure(text: str) -> types.CallToolResult:
    """An expected error: `isError`, with a text that says what was wrong and what to do."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=cap(text))], is_error=True)


def shape(tool: str, answer: BaseModel) -> types.CallToolResult:
    """An answer in a shape. Absent values are omitted.

    Raises:
        LimitExceeded: when its JSON is over 40,000 bytes, for half a JSON text helps nobody.
    """
    content = answer.model_dump(mode="json", exclude_none=True)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > MAX_RESULT_BYTES:
        raise LimitExceeded(f"the answer of {tool} is over {MAX_RESULT_BYTES} bytes; ask for less")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=content
    )


def cap(text: str, limit: int = MAX_RESULT_BYTES) -> str:
    """`text`, cut to `limit` bytes of UTF-8 with a note when it is longer."""
    if len(text.encode()) <= limit:
        return text
    note = _CUT.format(limit=limit)
    return cut_utf8(text, limit - len(note)) + note


def size_of(value: object) -> int:
    """The size of a JSON-like value in bytes, roughly: for logs. However deep it is: callers choose that."""
    size = 0
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, types.TextContent):
            item = item.text
        if isinstance(item, dict):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list):
            left += item
        else:
            size += len(item.encode(errors="replace")) if isinstance(item, str) else 8
    return size
