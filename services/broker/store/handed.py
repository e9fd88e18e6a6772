"""When an agent was last handed a row of each hop count: what the loop breaker needs to know, in few rows."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from services.broker.store.prepared import Prepared
from services.broker.tables import handed_hops

_HIGHEST = Prepared(
    select(func.max(handed_hops.c.hops)).where(
        handed_hops.c.agent_id == bindparam("agent_id"),
        or_(
            handed_hops.c.last_at.between(bindparam("since"), bindparam("until")),
            handed_hops.c.last_turn == bindparam("turn"),
        ),
    )
)
_UPDATE = Prepared(
    update(handed_hops)
    .where(handed_hops.c.agent_id == bindparam("of_agent"), handed_hops.c.hops == bindparam("of_hops"))
    .values(last_at=bindparam("at"), last_turn=bindparam("turn"))
)


class HandedHops:
    """Reads and changes the hop counts an agent was handed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def record(self, agent_id: int, hops: set[int], *, at: int, turn: str | None) -> None:
        for count in sorted(hops):
            if _UPDATE.run(self._connection, of_agent=agent_id, of_hops=count, at=at, turn=turn) == 0:
                values = {"agent_id": agent_id, "hops": count, "last_at": at, "last_turn": turn}
                self._connection.execute(insert(handed_hops), values)

    def find_highest(self, agent_id: int, *, since: int, until: int, turn: str | None) -> int | None:
        """The highest hop count handed out in `turn` or from `since` to `until`."""
        found: int | None = _HIGHEST.scalar(
            self._connection, agent_id=agent_id, since=since, until=until, turn=turn
        )
        return found
