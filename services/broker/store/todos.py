"""What agents' daemons last reported of their open todos, one row an agent."""

from __future__ import annotations

import json

from sqlalchemy import Connection, delete, insert, select, update

from services.broker.tables import todo_mirrors
from shared.wire.todos import TodoMirror


class TodoRows:
    """Reads and changes the mirrors."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, agent_id: int, mirror: TodoMirror) -> None:
        """Replace an agent's."""
        values = {
            "as_of": mirror.as_of,
            "total": mirror.total,
            "todos": json.dumps([todo.model_dump(exclude_none=True) for todo in mirror.todos]),
        }
        own = todo_mirrors.c.agent_id == agent_id
        if not self._connection.execute(update(todo_mirrors).where(own).values(**values)).rowcount:
            self._connection.execute(insert(todo_mirrors).values(agent_id=agent_id, **values))

    def find(self, agent_id: int) -> TodoMirror | None:
        row = self._connection.execute(
            select(todo_mirrors).where(todo_mirrors.c.agent_id == agent_id)
        ).first()
        if row is None:
            return None
        return TodoMirror(todos=json.loads(row.todos), total=row.total, as_of=row.as_of)

    def delete(self, agent_id: int) -> None:
        self._connection.execute(delete(todo_mirrors).where(todo_mirrors.c.agent_id == agent_id))
