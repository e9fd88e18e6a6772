"""One command over a unix socket that speaks JSON lines, and its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shared.errors import HiveError, InvalidInput, LimitExceeded, Unavailable
from shared.runtime.lines import MAX_LINE_BYTES

SECONDS: Final = 10.0
_LIMITS: Final = frozenset({"too_many_todos", "limit_exceeded"})


async def ask(path: Path, command: Mapping[str, Any], *, seconds: float = SECONDS) -> Mapping[str, Any]:
    """Send one command over a connection of its own.

    Raises:
        Unavailable: when nobody listens there, or does not answer in time.
        LimitExceeded: when the other side has no room for it now.
        InvalidInput: when it is refused for what it is.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
            try:
                writer.write(json.dumps(command).encode() + b"\n")
                await writer.drain()
                answer: Any = json.loads(await reader.readline())
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError) as exc:
        raise Unavailable(f"{path} does not answer; it will be tried again") from exc
    if isinstance(answer, dict) and answer.get("ok"):
        return answer
    raise _explain(answer)


def _explain(answer: object) -> HiveError:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return Unavailable("what answered there does not speak this protocol")
    code, message = str(error.get("code")), str(error.get("message"))
    if code in _LIMITS:
        return LimitExceeded(message, code=code)
    if code == InvalidInput.default_code:
        return InvalidInput(message)
    return Unavailable(message, code=code)
