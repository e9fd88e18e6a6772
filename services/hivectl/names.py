"""Names, ids and paths on the command line, checked before they travel."""

from __future__ import annotations

import click
from pydantic import TypeAdapter, ValidationError

from shared.wire.agents import AddPath, PathMode, check_path
from shared.wire.model import MAX_ID
from shared.wire.names import OPERATOR, check_agent_name, check_hive_name, check_label, check_party_name
from shared.wire.tasks import TaskId

_TASK_ID: TypeAdapter[str] = TypeAdapter(TaskId)


class AgentNameType(click.ParamType[str]):
    """An agent's name; anything else is a usage error that says the rule."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether there is such an agent only the broker knows."""
        try:
            return check_agent_name(str(value))
        except ValueError as exc:
            self.fail(f"an agent's name {exc}", param, ctx)


class RecipientType(AgentNameType):
    """Whom an agent may be allowed to write to: an agent, or the operator, who is reachable in any case."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As for an agent's name; `operator` alone in a list of recipients means nobody else."""
        return OPERATOR if value == OPERATOR else super().convert(value, param, ctx)


class ReaderNameType(click.ParamType[str]):
    """The name of a reader of notices; it becomes part of a user's name at NATS."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether there is such a reader is not known here."""
        try:
            return check_hive_name(str(value))
        except ValueError as exc:
            self.fail(f"a reader's name {exc}", param, ctx)


class RowIdType(click.ParamType[int]):
    """The id of a message, or of what else `what` says; a number that none can have is a usage error."""

    name = "ID"

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Check the range; whether there is such a row only the broker knows."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID))):
            self.fail(f"{text[:40]!r} is no {self._what}'s id", param, ctx)
        if not 1 <= (number := int(text)) <= MAX_ID:
            self.fail(f"{number} is no {self._what}'s id", param, ctx)
        return number


class LabelType(click.ParamType[str]):
    """A label that an agent is woken under; anything else is a usage error that says the rule."""

    name = "LABEL"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether an agent is named so only the broker knows."""
        try:
            return check_label(str(value))
        except ValueError as exc:
            self.fail(f"a label {exc}", param, ctx)


class PartyNameType(click.ParamType[str]):
    """Whom a message may come from or go to; anything else is a usage error that says the rule."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether anybody was ever called so only the broker knows."""
        try:
            return check_party_name(str(value))
        except ValueError as exc:
            self.fail(f"a name {exc}", param, ctx)


class TaskIdType(click.ParamType[str]):
    """The id of a background task; what can be none is a usage error."""

    name = "ID"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether there is such a task only its surface knows."""
        try:
            return _TASK_ID.validate_python(str(value))
        except ValidationError:
            self.fail(f"{str(value)[:40]!r} is no task's id", param, ctx)


class PathType(click.ParamType[str]):
    """An absolute path, in its shortest form."""

    name = "PATH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; nothing is looked up."""
        try:
            return check_path(str(value))
        except ValueError as exc:
            self.fail(f"{str(value)[:80]!r} {exc}", param, ctx)


class GrantedPathType(click.ParamType[AddPath]):
    """`PATH`, `PATH:ro` or `PATH:rw`."""

    name = "PATH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AddPath:
        """Take the mode off the end. A path that ends so itself is written with its mode."""
        if isinstance(value, AddPath):
            return value
        text = str(value)
        mode: PathMode = "rw" if text.endswith(":rw") else "ro"
        path = text.removesuffix(f":{mode}")
        return AddPath(path=PATH.convert(path, param, ctx), mode=mode)


AGENT_NAME = AgentNameType()
PARTY_NAME = PartyNameType()
PATH = PathType()
GRANTED_PATH = GrantedPathType()
TASK_ID = TaskIdType()
LABEL = LabelType()
RECIPIENT = RecipientType()
READER_NAME = ReaderNameType()
MESSAGE_ID = RowIdType("message")
APPROVAL_ID = RowIdType("approval")
REMINDER_ID = RowIdType("reminder")
SCHEDULE_ID = RowIdType("schedule")
