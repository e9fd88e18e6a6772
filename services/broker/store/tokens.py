"""Agents' credentials, by their SHA-256. One is current; earlier ones carry the time at which they end."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from services.broker.store.prepared import Prepared
from services.broker.tables import agent_tokens, agents

_VALID = Prepared(
    select(agents.c.id, agents.c.name, agent_tokens.c.expires_at)
    .join_from(agent_tokens, agents, agent_tokens.c.agent_id == agents.c.id)
    .where(
        agent_tokens.c.sha256 == bindparam("sha256"),
        agents.c.destroyed_at.is_(None),
        or_(agent_tokens.c.expires_at.is_(None), agent_tokens.c.expires_at > bindparam("now")),
    ),
    ["id", "name", "expires_at"],
)


class TokenRows:
    """Reads and changes the table of credentials."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_agent(self, sha256: str, *, now: int) -> tuple[int, str, int | None] | None:
        """Whose valid credential this is: id, name, and when it ends, if it does."""
        row = _VALID.first(self._connection, sha256=sha256, now=now)
        return None if row is None else (row.id, row.name, row.expires_at)

    def find_owner(self, sha256: str) -> tuple[int, int | None] | None:
        """Which agent a credential belongs to and when it ends, valid or not."""
        query = select(agent_tokens.c.agent_id, agent_tokens.c.expires_at).where(
            agent_tokens.c.sha256 == sha256
        )
        row = self._connection.execute(query).first()
        return None if row is None else (row.agent_id, row.expires_at)

    def insert(self, sha256: str, *, agent_id: int, created_at: int) -> None:
        values = {"sha256": sha256, "agent_id": agent_id, "created_at": created_at}
        self._connection.execute(insert(agent_tokens), values)

    def retire_others(self, agent_id: int, *, keep: str, at: int) -> None:
        """Have all tokens of an agent but `keep` end at `at`, or earlier where that was set before."""
        self._connection.execute(
            update(agent_tokens)
            .where(
                agent_tokens.c.agent_id == agent_id,
                agent_tokens.c.sha256 != keep,
                or_(agent_tokens.c.expires_at.is_(None), agent_tokens.c.expires_at > at),
            )
            .values(expires_at=at)
        )

    def delete_expired(self, *, now: int) -> None:
        self._connection.execute(delete(agent_tokens).where(agent_tokens.c.expires_at <= now))

    def delete_retiring(self, agent_id: int) -> int:
        """End all but the current token at once; returns how many there were."""
        done = self._connection.execute(
            delete(agent_tokens).where(
                agent_tokens.c.agent_id == agent_id, agent_tokens.c.expires_at.is_not(None)
            )
        )
        return done.rowcount

    def delete_all(self, agent_id: int) -> None:
        self._connection.execute(delete(agent_tokens).where(agent_tokens.c.agent_id == agent_id))
