"""What a tool is to the host: a name, copy the model reads, argument and result models, and a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from shared.mcp.arguments import ToolArguments


@dataclass(frozen=True)
class Call:
    """One tool call, whoever made it.

    Attributes:
        key: an idempotency key of this call alone; retries towards the broker carry it.
        turn: the turn that made the call (`X-Hive-Turn`, set by the turn's own mcp config), else None.
        caller: what the app's `authenticate` returned for the credential.
    """

    key: str
    turn: str | None
    caller: object


Handler = Callable[[Any, Call], Awaitable[str | BaseModel]]


@dataclass(frozen=True)
class Tool:
    """One tool of a surface.

    A handler returns prose (`str`), or an instance of `result`, which becomes `structuredContent` with an
    output schema and the same JSON as text. A `HiveError` becomes an `isError` result with its message.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    handler: Handler
    result: type[BaseModel] | None = None
    read_only: bool = False
    idempotent: bool = False
