"""The durable list of a surface's tasks: a row a task, from its asking to its sweeping.

Writes survive any kill of the daemon when the method returns, and a loss of power once `flush` has: an end
does not need it, as the task's supervisor makes it durable itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.errors import NotFound
from shared.runtime.database import Database
from shared.tasks.model import End, TaskState

_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS tasks (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL, title TEXT NOT
        NULL, request TEXT, created_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER, boot TEXT, end
        TEXT, kept_bytes INTEGER NOT NULL DEFAULT 0, shown INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL
        DEFAULT 0, prompt INTEGER NOT NULL DEFAULT 0, prompted INTEGER NOT NULL DEFAULT 0, swept TEXT
    ) STRICT
    """,
    # What has not ended, and whose end has still to be told or cleared: few rows among many.
    "CREATE INDEX IF NOT EXISTS ix_tasks_open ON tasks (state, seq) WHERE state IN ('pending', 'running')",
    "CREATE INDEX IF NOT EXISTS ix_tasks_untold ON tasks (seq) WHERE end IS NOT NULL AND told != 2",
    "CREATE INDEX IF NOT EXISTS ix_tasks_answered ON tasks (seq) WHERE end IS NULL AND prompted = 2",
    "CREATE INDEX IF NOT EXISTS ix_tasks_kept ON tasks (seq) WHERE end IS NOT NULL AND swept IS NULL",
)
_COLUMNS: Final = (
    "seq, id, state, title, created_at, started_at, ended_at, boot, end, kept_bytes, shown, swept"
)
# `told` is 0 while nothing was said of the end, 1 when there may be a todo as it is said now, 2 when nothing
# is left to say, 3 when there is a todo. `prompt` is the newest prompt that was told or shown, by its
# number; `prompted` is 1 when there may be a todo of it, 2 when that is to be cleared.


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task as it is stored. Times are unix seconds; `swept` says why its output is gone."""

    seq: int
    id: str
    state: TaskState
    title: str
    created_at: int
    started_at: int | None
    ended_at: int | None
    boot: str | None
    end: End | None
    kept_bytes: int
    is_shown: bool
    swept: str | None


class TaskRegistry:
    """The tasks of one surface.

    Raises:
        Unavailable: from every method, when the file cannot be read or written; nothing was done.
    """

    def __init__(self, path: Path) -> None:
        self._db = Database(path, _SCHEMA, is_flushed=False)

    def close(self) -> None:
        self._db.close()

    def flush(self) -> None:
        """Have what was written survive a loss of power. Blocks."""
        self._db.flush()

    def add(
        self, task_id: str, title: str, *, request: str, is_pending: bool, boot: str, now: int
    ) -> TaskRow:
        """Note a task, as pending or as running from now on. What is asked for stays until its end."""
        state = TaskState.PENDING if is_pending else TaskState.RUNNING
        started = None if is_pending else now
        values = (task_id, state.value, title, request, now, started, boot)
        sql = (
            "INSERT INTO tasks (id, state, title, request, created_at, started_at, boot) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING "
        )
        return _to_row(self._db.execute(sql + _COLUMNS, values)[0])

    def start(self, task_id: str, *, boot: str, now: int) -> str | None:
        """A task runs from now on; answers what was asked for, None when it has ended."""
        sql = (
            "UPDATE tasks SET state = 'running', started_at = ?, boot = ? WHERE id = ? AND end IS NULL "
            "RETURNING request"
        )
        rows = self._db.execute(sql, (now, boot, task_id))
        return rows[0][0] if rows else None

    def finish(self, task_id: str, end: End, *, kept_bytes: int) -> bool:
        """Note how a task ended; False when that was known before, which then stands."""
        sql = (
            "UPDATE tasks SET state = ?, request = NULL, ended_at = ?, end = ?, kept_bytes = ? "
            "WHERE id = ? AND end IS NULL RETURNING seq"
        )
        values = (end["state"], int(end["ended_at"]), json.dumps(end), kept_bytes, task_id)
        return bool(self._db.execute(sql, values))

    def find(self, task_id: str) -> TaskRow | None:
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM tasks WHERE id = ?", (task_id,))  # noqa: S608
        return _to_row(rows[0]) if rows else None

    def get(self, task_id: str) -> TaskRow:
        """A task as it is stored.

        Raises:
            NotFound: when there is none of this id, or it was forgotten long after its end.
        """
        row = self.find(task_id)
        if row is None:
            raise NotFound(f"no task {task_id[:40]!r}; `list` shows those there are", code="no_such_task")
        return row

    def list_open(self) -> list[TaskRow]:
        """All that are pending or running, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM tasks WHERE state IN ('pending', 'running') ORDER BY seq"  # noqa: S608
        return [_to_row(row) for row in self._db.execute(sql)]

    def list_recent(self, limit: int) -> list[TaskRow]:
        """The newest, whatever their state, the newest first."""
        sql = f"SELECT {_COLUMNS} FROM tasks ORDER BY seq DESC LIMIT ?"  # noqa: S608
        return [_to_row(row) for row in self._db.execute(sql, (limit,))]

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM tasks")[0][0])

    def mark_shown(self, task_id: str) -> bool:
        """An answer has shown this end; says whether there is a todo of the task that is to be cleared."""
        sql = (
            "UPDATE tasks SET shown = 1, told = CASE WHEN told = 0 AND prompted = 0 THEN 2 ELSE told END "
            "WHERE id = ? AND end IS NOT NULL RETURNING told"
        )
        rows = self._db.execute(sql, (task_id,))
        return bool(rows) and rows[0][0] != 2

    def list_untold(self, limit: int) -> list[TaskRow]:
        """Ends that no answer has shown and no todo tells, the oldest first."""
        return self._list_telling("told IN (0, 1) AND shown = 0", limit)

    def list_outdated(self, limit: int) -> list[TaskRow]:
        """Ended tasks of which there may be a todo although an answer has shown their end since."""
        return self._list_telling("(told IN (1, 3) OR prompted != 0) AND shown = 1", limit)

    def mark_telling(self, task_id: str) -> None:
        """There may be a todo of this end from now on."""
        self._db.execute("UPDATE tasks SET told = 1 WHERE id = ? AND told = 0", (task_id,))

    def mark_told(self, task_id: str) -> None:
        """There is a todo of this end."""
        self._db.execute("UPDATE tasks SET told = 3 WHERE id = ?", (task_id,))

    def prompt(self, task_id: str, number: int) -> bool:
        """Whether this prompt is still to be told; if so, there may be a todo of it from now on."""
        sql = (
            "UPDATE tasks SET prompt = ?1, prompted = 1 WHERE id = ?2 AND end IS NULL AND "
            "(prompt < ?1 OR (prompt = ?1 AND prompted = 1)) RETURNING seq"
        )
        return bool(self._db.execute(sql, (number, task_id)))

    def forgive_prompt(self, task_id: str, number: int) -> None:
        """This prompt was shown, or answered: a todo of it is to be cleared, and none is to come."""
        sql = (
            "UPDATE tasks SET prompt = max(prompt, ?), prompted = iif(prompted = 1, 2, prompted) "
            "WHERE id = ? AND end IS NULL"
        )
        self._db.execute(sql, (number, task_id))

    def list_answered(self, limit: int) -> list[str]:
        """Tasks that go on, and whose todo of a prompt is to be cleared."""
        sql = "SELECT id FROM tasks WHERE end IS NULL AND prompted = 2 ORDER BY seq LIMIT ?"
        return [str(row[0]) for row in self._db.execute(sql, (limit,))]

    def settle_prompt(self, task_id: str) -> None:
        """There is no todo of a prompt any more."""
        self._db.execute("UPDATE tasks SET prompted = 0 WHERE id = ? AND prompted = 2", (task_id,))

    def settle(self, task_id: str) -> None:
        """There is no todo of this task, and none to come."""
        self._db.execute("UPDATE tasks SET told = 2, prompted = 0 WHERE id = ?", (task_id,))

    def sum_kept(self) -> int:
        """Bytes on disk of what ended tasks wrote."""
        sql = "SELECT coalesce(sum(kept_bytes), 0) FROM tasks WHERE end IS NOT NULL AND swept IS NULL"
        return int(self._db.execute(sql)[0][0])

    def list_kept(self, *, before: int, is_shown: bool | None, limit: int) -> list[TaskRow]:
        """Ended tasks whose output is still there and that ended before a time, the oldest first."""
        sql = (
            f"SELECT {_COLUMNS} FROM tasks WHERE end IS NOT NULL AND swept IS NULL AND ended_at < ?1 "  # noqa: S608
            "AND (?2 IS NULL OR shown = ?2) ORDER BY seq LIMIT ?3"
        )
        return [_to_row(row) for row in self._db.execute(sql, (before, is_shown, limit))]

    def mark_swept(self, task_id: str, why: str) -> None:
        self._db.execute("UPDATE tasks SET swept = ?, kept_bytes = 0 WHERE id = ?", (why, task_id))

    def forget(self, *, before: int) -> int:
        """Remove rows of tasks swept and ended before a time; returns how many."""
        sql = (
            "DELETE FROM tasks WHERE end IS NOT NULL AND swept IS NOT NULL AND ended_at < ? AND "
            "(shown = 1 OR told = 2) RETURNING seq"
        )
        return len(self._db.execute(sql, (before,)))

    def _list_telling(self, condition: str, limit: int) -> list[TaskRow]:
        sql = (
            f"SELECT {_COLUMNS} FROM tasks WHERE end IS NOT NULL AND told != 2 AND {condition} "  # noqa: S608
            "ORDER BY seq LIMIT ?"
        )
        return [_to_row(row) for row in self._db.execute(sql, (limit,))]


def _to_row(row: tuple[Any, ...]) -> TaskRow:
    seq, task_id, state, title, created, started, ended, boot, end, kept, shown, swept = row
    return TaskRow(
        seq, task_id, TaskState(state), title, created, started, ended, boot,
        None if end is None else json.loads(end), kept, bool(shown), swept,
    )  # fmt: skip
