"""Lines of the form `{"cmd": …}`: what each command takes, who runs it, what is wrong with other lines.

Knows nothing of sockets; a `LineServer` asks it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from shared.errors import InvalidInput, OutcomeUnknown
from shared.runtime.faults import explain_validation

ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Command:
    """One command: the model of its other fields, and what it does with them."""

    request: type[BaseModel]
    run: Callable[[Any], Awaitable[Mapping[str, Any]]]


class CommandTable:
    """All commands of a socket."""

    def __init__(self, commands: Mapping[str, Command]) -> None:
        self._commands = dict(commands)

    async def answer(self, line: bytes) -> Mapping[str, Any]:
        """Run the command that a line holds.

        Raises:
            InvalidInput: for what is no command; with what was expected and without what was sent.
            HiveError: as the command refuses it.
        """
        fields = _parse(line)
        command = self._find(fields.pop("cmd", None))
        try:
            request = command.request.model_validate(fields)
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False)
            named = [{**error, "loc": ("body", *error["loc"])} for error in errors]
            raise InvalidInput(explain_validation(named)) from None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await command.run(request)
        except TimeoutError:
            raise OutcomeUnknown(
                f"no answer within {ANSWER_SECONDS:g} s; it may or may not have taken effect"
            ) from None

    def _find(self, name: object) -> Command:
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            known = ", ".join(sorted(self._commands))
            raise InvalidInput(f"`cmd` must be one of: {known}", code="unknown_command")
        return command


def _parse(line: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidInput(
            "the line is not JSON in UTF-8; send one JSON object a line", code="malformed_line"
        ) from None
    if not isinstance(parsed, dict):
        raise InvalidInput("the line is no JSON object; send one object a line", code="malformed_line")
    return parsed


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
