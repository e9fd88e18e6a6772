"""Todos: what the processes around an agent tell it has happened. They travel over the in-agent socket."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from shared.wire.model import (
    MAX_ID,
    RowId,
    UnixSeconds,
    WireRequest,
    WireResult,
    check_content,
    check_text,
)

MAX_OPEN_TODOS = 1_000
MAX_IDS = 1_000

_Name = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(check_text)]
_Summary = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(check_content)]
_Detail = Annotated[str, StringConstraints(max_length=8_000), AfterValidator(check_text)]
_EventId = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_text)]


class UpsertTodo(WireRequest):
    """`upsert_todo`: make the todo of `(subsystem, key)`, or change it. Null means absent.

    A new or changed summary gives it a new revision, and so wakes the agent; the same again does not. An
    `event_id` that this todo was given before changes nothing, also after it was cleared.
    """

    subsystem: _Name
    key: _Name
    summary: _Summary
    detail: _Detail | None = None
    event_id: _EventId | None = None


class ClearTodo(WireRequest):
    """`clear_todo`: there is nothing to do any more; clearing what is not there is fine."""

    subsystem: _Name
    key: _Name


class MarkTodosDone(WireRequest):
    """`mark_todos_done`: clear by id; unknown and done ids are skipped."""

    ids: Annotated[list[RowId], Field(max_length=MAX_IDS)]


class ListTodos(WireRequest):
    """`list_todos`: the oldest that are open, of those with an id above `after`; null means of all."""

    after: RowId | None = None


class Todo(WireResult):
    """An open todo. Ids are never used again; `revision` grows over all todos of the agent."""

    id: int
    subsystem: str
    key: str
    summary: str
    detail: str | None = None
    revision: int
    updated_at: int


MAX_MIRRORED = 100
MAX_MIRRORED_TEXT = 500


_MirroredText = Annotated[str, StringConstraints(max_length=MAX_MIRRORED_TEXT), AfterValidator(check_text)]


class MirroredTodo(WireRequest):
    """An open todo as the broker keeps it for the operator's eyes: long texts are cut."""

    id: RowId
    subsystem: _Name
    key: _Name
    summary: _MirroredText
    detail: _MirroredText | None = None
    revision: RowId
    updated_at: UnixSeconds


class TodoMirror(WireRequest):
    """What was open at `as_of`: the newest `todos`, by id, of `total`."""

    todos: Annotated[list[MirroredTodo], Field(max_length=MAX_MIRRORED)]
    total: Annotated[int, Field(ge=0, le=MAX_ID)]
    as_of: UnixSeconds


class TodoPage(WireResult):
    """`GET agents/{name}/todos`: what the agent's daemon last reported, also while it is down.

    `as_of` is None when it never has. What has changed since then is unknown while it is not `connected`.
    """

    todos: list[Todo] = []
    total: int = 0
    as_of: int | None = None
    connected: bool
