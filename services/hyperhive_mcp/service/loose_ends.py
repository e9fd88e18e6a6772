"""Loose ends of one agent: gathered anew on every call from sources of which any may be down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio
import structlog

from services.hyperhive_mcp.service.reminders import ReminderService
from services.hyperhive_mcp.service.todos import TodoService
from shared.client import BrokerClient
from shared.errors import Forbidden, HiveError, InvalidInput, NotFound, Unavailable
from shared.prose import one_line
from shared.tasks.endings import find_running
from shared.wire.loose_ends import LooseEnd, LooseEnds

# A source that says nothing for so long counts as down: the others are there.
SOURCE_SECONDS: Final = 5.0
# Below the limit of a tool's answer, of which the rest takes some.
MAX_BYTES: Final = 36_000
# Some of the tasks that run, so that one need not call `list` for them.
MAX_TASK_IDS: Final = 10
_ELSEWHERE: Final = {
    "inbox": "ack_until marks mail as dealt with",
    "sent": "it waits for its recipient, and nothing is to be done",
    "matrix": "mark_read and resolve_invite of the matrix surface deal with rooms and invites",
    "task": "kill of the surface that runs it, such as bash, ends a task",
}
CANCELLABLE: Final = ("approval", "reminder", "todo")

log = structlog.get_logger(__name__)


class Source(Protocol):
    """Where some kinds of loose ends come from."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds; they are named as unavailable when it is down."""

    @property
    def cancellable(self) -> tuple[str, ...]:
        """Those of its kinds that `cancel` takes."""

    async def list(self) -> Sequence[LooseEnd]:
        """All that are open."""

    async def cancel(self, kind: str, number: int) -> str:
        """End one; answers what was done.

        Raises:
            NotFound: when there is none of the agent's own by this id.
        """


class LooseEndService:
    """What `get_loose_ends` and `cancel_loose_end` do."""

    def __init__(self, sources: Sequence[Source], *, source_seconds: float = SOURCE_SECONDS) -> None:
        self._sources = sources
        self._source_seconds = source_seconds

    @property
    def cancellable(self) -> list[str]:
        """The kinds that can be cancelled."""
        return sorted(kind for source in self._sources for kind in source.cancellable)

    async def list(self) -> LooseEnds:
        """All that is open, and which kinds could not be asked for."""
        found: dict[int, Sequence[LooseEnd]] = {}
        refused: list[Forbidden] = []

        async def ask(number: int, source: Source) -> None:
            try:
                with anyio.fail_after(self._source_seconds):
                    found[number] = await source.list()
            except Forbidden as exc:
                refused.append(exc)
            except (HiveError, TimeoutError) as exc:
                log.warning("loose_ends_unavailable", kinds=source.kinds, reason=str(exc))

        async with anyio.create_task_group() as tasks:
            for number, source in enumerate(self._sources):
                tasks.start_soon(ask, number, source)
        if refused:
            raise refused[0]
        missing = [
            kind for number, one in enumerate(self._sources) if number not in found for kind in one.kinds
        ]
        rows = [row for number in sorted(found) for row in found[number]]
        shown = _fitting(rows)
        return LooseEnds(loose_ends=shown, unavailable=missing, omitted=len(rows) - len(shown) or None)

    async def cancel(self, kind: str, number: int) -> str:
        """End one of the agent's own.

        Raises:
            NotFound: when there is none by this id; nothing was changed.
            InvalidInput: when the kind is none that can be cancelled.
        """
        for source in self._sources:
            if kind in source.cancellable:
                return await source.cancel(kind, number)
        raise refuse_kind(kind, self.cancellable)


def refuse_kind(kind: str, known: Sequence[str] = CANCELLABLE) -> InvalidInput:
    """The error for a kind that cannot be cancelled, with what deals with it instead."""
    hint = f": {_ELSEWHERE[kind]}" if kind in _ELSEWHERE else ""
    return InvalidInput(
        f"{one_line(kind, limit=40)!r} cannot be cancelled{hint}. These can: {', '.join(known)}"
    )


def _fitting(rows: Sequence[LooseEnd]) -> list[LooseEnd]:
    shown: list[LooseEnd] = []
    size = 0
    for row in rows:
        # The JSON of it, escapes and all; a comma and a little.
        size += len(row.model_dump_json(exclude_none=True).encode()) + 2
        if size > MAX_BYTES:
            break
        shown.append(row)
    return shown


class BrokerSource:
    """What the broker knows of: mail, approvals, reminders, and what was sent and still waits."""

    kinds = ("inbox", "approval", "reminder", "sent")
    cancellable = ("approval", "reminder")

    def __init__(self, broker: BrokerClient, reminders: ReminderService) -> None:
        self._broker = broker
        self._reminders = reminders

    async def list(self) -> Sequence[LooseEnd]:
        return (await self._broker.plans.list_loose_ends()).loose_ends

    async def cancel(self, kind: str, number: int) -> str:
        if kind == "reminder":
            await self._reminders.cancel(number)
            return f"Reminder #{number} is deleted."
        await self._broker.plans.cancel_approval(number)
        return f"Approval #{number} is cancelled."


class TodoSource:
    """Todos, which need no broker."""

    kinds = ("todo",)
    cancellable = ("todo",)

    def __init__(self, todos: TodoService) -> None:
        self._todos = todos

    async def list(self) -> Sequence[LooseEnd]:
        return [
            LooseEnd(
                kind="todo",
                id=todo.id,
                subsystem=one_line(todo.subsystem, limit=64),
                key=one_line(todo.key, limit=64),
                summary=one_line(todo.summary),
                detail=None if todo.detail is None else one_line(todo.detail),
                updated_at=todo.updated_at,
            )
            for todo in await self._todos.list()
        ]

    async def cancel(self, kind: str, number: int) -> str:
        del kind
        if not await self._todos.clear_ids([number]):
            raise NotFound(f"you have no open todo #{number}; nothing was changed")
        return f"Todo #{number} is cleared."


class TaskSource:
    """Background tasks that run, by surface: their supervisors are seen on disk, so no daemon is asked.

    Args:
        data_dir: where the agent's daemons keep the records of tasks.
    """

    kinds = ("task",)
    cancellable: tuple[str, ...] = ()

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    async def list(self) -> Sequence[LooseEnd]:
        try:
            running = await anyio.to_thread.run_sync(find_running, self._data_dir)
        except OSError as exc:
            raise Unavailable(f"the records of tasks cannot be read: {exc.strerror}") from exc
        return [
            LooseEnd(kind="task", id=0, surface=surface, running=len(ids), task_ids=ids[:MAX_TASK_IDS])
            for surface, ids in sorted(running.items())
        ]

    async def cancel(self, kind: str, number: int) -> str:
        raise InvalidInput(f"{kind} #{number} cannot be cancelled: {_ELSEWHERE['task']}")
