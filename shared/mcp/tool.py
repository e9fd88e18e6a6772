"""What a tool is to the host: a name, copy the model reads, argument and result models, and a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from shared.mcp.arguments import ToolArguments


class ReportProgress(Protocol):
    """Tells a client that asked for it how far a call is; others hear nothing.

    `progress` must grow from one report to the next. A client counts each as a sign of life, so a tool that
    waits reports now and then.
    """

    async def __call__(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...


async def _tell_nobody(progress: float, total: float | None = None, message: str | None = None) -> None:
    del progress, total, message


@dataclass(frozen=True)
class Call:
    """One tool call, whoever made it.

    Attributes:
        key: an idempotency key of this call alone; retries towards the broker carry it.
        turn: the turn that made the call (`X-Hive-Turn`, set by the turn's own mcp config), else None.
        caller: what the app's `authenticate` returned for the credential.
        report_progress: tells the client how far the call is, if it wants to know.
    """

    key: str
    turn: str | None
    caller: object
    report_progress: ReportProgress = _tell_nobody


Handler = Callable[[Any, Call], Awaitable[str | BaseModel]]


@dataclass(frozen=True)
class Tool:
    """One tool of a surface.

    A handler returns prose (`str`), or an instance of `result`, which becomes `structuredContent` with an
    output schema and the same JSON as text. A `HiveError` becomes an `isError` result with its message. One
    that says it reports no progress is answered without an event stream, which costs half.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    handler: Handler
    result: type[BaseModel] | None = None
    read_only: bool = False
    idempotent: bool = False
    reports_progress: bool = True
