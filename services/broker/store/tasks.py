"""What surfaces last reported of their tasks, one row each, and which tasks the operator wanted ended."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from services.broker.tables import agents, task_kills, task_mirrors
from shared.wire.tasks import ReportedTask, TaskMirror

KEPT_KILLS = 200


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """A surface's report."""

    agent_id: int
    agent: str
    unit: str
    mirror: TaskMirror


@dataclass(frozen=True, slots=True)
class KillRow:
    """A task to be ended; `outcome` is None until the surface has answered."""

    id: int
    agent_id: int
    unit: str
    task_id: str
    outcome: str | None


_MIRRORS = (
    select(task_mirrors, agents.c.name)
    .join(agents, agents.c.id == task_mirrors.c.agent_id)
    .order_by(agents.c.name, task_mirrors.c.unit)
)


class TaskRows:
    """Reads and changes both tables."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, agent_id: int, unit: str, mirror: TaskMirror) -> None:
        """Replace what a surface reported."""
        values = {
            "as_of": mirror.as_of,
            "running": mirror.running,
            "pending": mirror.pending,
            "tasks": json.dumps([task.model_dump(mode="json", exclude_none=True) for task in mirror.tasks]),
        }
        own = (task_mirrors.c.agent_id == agent_id) & (task_mirrors.c.unit == unit)
        if not self._connection.execute(update(task_mirrors).where(own).values(**values)).rowcount:
            row = {"agent_id": agent_id, "unit": unit, **values}
            self._connection.execute(insert(task_mirrors).values(**row))

    def list_mirrors(self, agent_id: int | None = None) -> list[MirrorRow]:
        """Of one agent, or of all, by name."""
        query = _MIRRORS if agent_id is None else _MIRRORS.where(task_mirrors.c.agent_id == agent_id)
        return [
            MirrorRow(row.agent_id, row.name, row.unit, _decode(row))
            for row in self._connection.execute(query)
        ]

    def add_kill(self, agent_id: int, unit: str, task_id: str, *, asked_at: int) -> int:
        """Note a wish; of one agent's the newest are kept."""
        values = {"agent_id": agent_id, "unit": unit, "task_id": task_id, "asked_at": asked_at}
        key = self._connection.execute(insert(task_kills), values).inserted_primary_key
        assert key is not None
        newest = (
            select(task_kills.c.id)
            .where(task_kills.c.agent_id == agent_id)
            .order_by(task_kills.c.id.desc())
            .offset(KEPT_KILLS)
            .limit(1)
            .scalar_subquery()
        )
        self._connection.execute(
            delete(task_kills).where(task_kills.c.agent_id == agent_id, task_kills.c.id <= newest)
        )
        return int(key[0])

    def list_kills(self, ids: Collection[int]) -> list[KillRow]:
        """Those of the ids that are there."""
        return self._kills(task_kills.c.id.in_(ids))

    def list_open_kills(self, agent_ids: Collection[int], *, since: int) -> list[KillRow]:
        """Those that nobody has answered, asked for at `since` or later."""
        return self._kills(
            task_kills.c.agent_id.in_(agent_ids)
            & task_kills.c.outcome.is_(None)
            & (task_kills.c.asked_at >= since)
        )

    def answer_kills(self, agent_id: int, unit: str, task_id: str, outcome: str) -> bool:
        """Note what a surface answered; says whether somebody had asked."""
        asked = (
            (task_kills.c.agent_id == agent_id)
            & (task_kills.c.unit == unit)
            & (task_kills.c.task_id == task_id)
            & task_kills.c.outcome.is_(None)
        )
        return bool(
            self._connection.execute(update(task_kills).where(asked).values(outcome=outcome)).rowcount
        )

    def delete(self, agent_id: int) -> None:
        """All of an agent."""
        for table in (task_mirrors, task_kills):
            self._connection.execute(delete(table).where(table.c.agent_id == agent_id))

    def _kills(self, which: Any) -> list[KillRow]:  # noqa: ANN401 - a clause of SQLAlchemy
        return [
            KillRow(row.id, row.agent_id, row.unit, row.task_id, row.outcome)
            for row in self._connection.execute(select(task_kills).where(which).order_by(task_kills.c.id))
        ]


def _decode(row: Any) -> TaskMirror:  # noqa: ANN401 - a row of SQLAlchemy
    tasks = [ReportedTask.model_validate(task) for task in json.loads(row.tasks)]
    return TaskMirror(tasks=tasks, running=row.running, pending=row.pending, as_of=row.as_of)
