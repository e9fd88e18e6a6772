"""A tool call of the self-contained era without the SDK, for tests that make hundreds of them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.access import MODERN, AgentAccess, Answer, request


def quick_call(access: AgentAccess, tool: str, arguments: dict[str, Any], *, seconds: float = 45.0) -> Answer:
    """One call over a connection of its own.

    Raises:
        httpx2.TransportError: when the answer does not come.
    """
    params = {
        "name": tool,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = request(
        "POST", access.mcp_url, token=access.token, body=body, headers=headers, timeout=seconds
    )
    assert response.is_success, (response.status_code, response.text)
    text = response.text
    message = json.loads(text if text.startswith("{") else text.partition("data: ")[2])
    assert "result" in message, message
    result = message["result"]
    blocks = [block["text"] for block in result["content"] if block["type"] == "text"]
    return Answer("\n".join(blocks), bool(result.get("isError")), result.get("structuredContent"))
