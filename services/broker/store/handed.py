"""When an agent was last handed a row of each hop count: what the loop breaker needs to know, in few rows."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from services.broker.store.memory import Handed, KnownHops
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
# More different counts than that are not remembered: the limit of hops is lower, if it has not been raised.
_MAX_KNOWN = 64
_ALL = Prepared(
    select(handed_hops.c.hops, handed_hops.c.last_at, handed_hops.c.last_turn)
    .where(handed_hops.c.agent_id == bindparam("agent_id"))
    .limit(_MAX_KNOWN + 1),
    ["hops", "last_at", "last_turn"],
)
_UPDATE = Prepared(
    update(handed_hops)
    .where(handed_hops.c.agent_id == bindparam("of_agent"), handed_hops.c.hops == bindparam("of_hops"))
    .values(last_at=bindparam("at"), last_turn=bindparam("turn"))
)


class HandedHops:
    """Reads and changes the hop counts an agent was handed."""

    def __init__(self, connection: Connection, known: KnownHops | None = None) -> None:
        self._connection = connection
        self._known = known

    def record(self, agent_id: int, hops: set[int], *, at: int, turn: str | None) -> None:
        if self._known is not None:
            self._known.forget(agent_id)
        for count in sorted(hops):
            if _UPDATE.run(self._connection, of_agent=agent_id, of_hops=count, at=at, turn=turn) == 0:
                values = {"agent_id": agent_id, "hops": count, "last_at": at, "last_turn": turn}
                self._connection.execute(insert(handed_hops), values)

    def find_highest(self, agent_id: int, *, since: int, until: int, turn: str | None) -> int | None:
        """The highest hop count handed out in `turn` or from `since` to `until`."""
        handed = self._list_known(agent_id)
        if handed is not None:
            fitting = (
                one.hops
                for one in handed
                if since <= one.at <= until or (turn is not None and one.turn == turn)
            )
            return max(fitting, default=None)
        found: int | None = _HIGHEST.scalar(
            self._connection, agent_id=agent_id, since=since, until=until, turn=turn
        )
        return found

    def _list_known(self, agent_id: int) -> list[Handed] | None:
        """All that an agent was handed, read if it must be; None where that cannot be remembered."""
        if self._known is None:
            return None
        handed = self._known.find(agent_id)
        if handed is None:
            handed = [Handed(*row) for row in _ALL.all(self._connection, agent_id=agent_id)]
            if len(handed) > _MAX_KNOWN:
                return None
            self._known.keep(agent_id, handed)
        return handed
