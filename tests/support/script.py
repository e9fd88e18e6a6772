"""What a scripted model sees and says: requests of the Messages API, and the steps that answer them.

Holds no sockets; `messages_api` plays these over HTTP.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

JsonObject = dict[str, Any]
Kind = Literal["main", "agent", "compaction", "count_tokens", "other"]
_COMPACTION = "create a detailed summary of the conversation"


@dataclass(frozen=True)
class ToolResult:
    """One tool result as the model was shown it."""

    tool_use_id: str
    text: str
    is_error: bool


@dataclass(frozen=True)
class ModelRequest:
    """One recorded request; `body` is the parsed JSON."""

    kind: Kind
    path: str
    headers: Mapping[str, str]
    body: JsonObject

    @property
    def tools(self) -> dict[str, JsonObject]:
        """Tool definitions by name."""
        return {tool["name"]: tool for tool in self.body.get("tools", [])}

    @property
    def system(self) -> str:
        return _text(self.body.get("system", ""))

    @property
    def messages(self) -> list[JsonObject]:
        return list(self.body.get("messages", []))

    @property
    def tool_results(self) -> list[ToolResult]:
        """All tool results of the conversation so far, oldest first."""
        return [
            ToolResult(block["tool_use_id"], _text(block.get("content", "")), bool(block.get("is_error")))
            for message in self.messages
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]

    @property
    def last_result(self) -> ToolResult:
        return self.tool_results[-1]

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message, without tool results."""
        users = [message for message in self.messages if message.get("role") == "user"]
        return _text(users[-1]["content"]) if users else ""


def classify(path: str, headers: Mapping[str, str], body: JsonObject) -> Kind:
    """Tell the main conversation from side requests, which must not consume its steps."""
    if path.endswith("/count_tokens"):
        return "count_tokens"
    if not path.endswith("/v1/messages"):
        return "other"
    if "x-claude-code-agent-id" in headers or "cc_is_subagent=true" in _text(body.get("system", "")):
        return "agent"
    messages = body.get("messages") or [{}]
    return "compaction" if _COMPACTION in _text(messages[-1].get("content", "")) else "main"


@dataclass(frozen=True)
class Reply:
    """What goes back: content blocks, or an error when `status` is not 200."""

    blocks: Sequence[JsonObject] = ()
    status: int = 200
    error_type: str = ""
    message: str = ""
    input_tokens: int = 1000
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop_reason(self) -> str:
        return "tool_use" if any(block["type"] == "tool_use" for block in self.blocks) else "end_turn"


class Step(Protocol):
    """One answer of the script. `until` holds it back until the test sets the event."""

    @property
    def until(self) -> threading.Event | None: ...

    def reply(self, request: ModelRequest, number: int) -> Reply: ...


@dataclass(frozen=True)
class Say:
    """End the turn with a text; `input_tokens` is the usage reported, which steers compaction."""

    text: str = "done"
    input_tokens: int = 1000
    until: threading.Event | None = None

    def reply(self, request: ModelRequest, number: int) -> Reply:
        return Reply([{"type": "text", "text": self.text}], input_tokens=self.input_tokens)


@dataclass(frozen=True)
class Use:
    """Call a tool; the input may be computed from what the model has been shown so far."""

    tool: str
    input: Mapping[str, Any] | Callable[[ModelRequest], Mapping[str, Any]] = field(default_factory=dict)
    until: threading.Event | None = None

    def reply(self, request: ModelRequest, number: int) -> Reply:
        return Reply([self.block(request, f"{number}")])

    def block(self, request: ModelRequest, suffix: str) -> JsonObject:
        value = self.input(request) if callable(self.input) else self.input
        json.dumps(value)
        return {
            "type": "tool_use",
            "id": f"toolu_{len(request.messages):04}x{suffix:0>16}",
            "name": self.tool,
            "input": dict(value),
        }


@dataclass(frozen=True)
class Together:
    """Call several tools in one answer, which the client may run side by side."""

    uses: Sequence[Use]
    until: threading.Event | None = None

    def reply(self, request: ModelRequest, number: int) -> Reply:
        return Reply([use.block(request, f"{number}x{index}") for index, use in enumerate(self.uses)])


@dataclass(frozen=True)
class Fail:
    """Answer with an error, such as 400 "prompt is too long: …" or 529."""

    status: int
    message: str
    error_type: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)
    until: threading.Event | None = None

    def reply(self, request: ModelRequest, number: int) -> Reply:
        return Reply(
            status=self.status, error_type=self.error_type, message=self.message, headers=self.headers
        )


def _text(content: object) -> str:
    """The text of a content value, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(b.get("text", "")) for b in content if isinstance(b, dict) and "text" in b)
    return ""
