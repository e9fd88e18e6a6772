"""The registry: one row a life of an agent. Rows of destroyed agents stay, under their own id."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, insert, select, update

from services.broker.store.memory import KnownAgents
from services.broker.store.prepared import Prepared
from services.broker.tables import agents
from shared.permissions import Capability, ToolGroup
from shared.wire.agents import GrantedPath, Grants

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One life of an agent."""

    id: int
    name: str
    parent_id: int | None
    parent: str | None
    port_block: int
    created_at: int
    destroyed_at: int | None
    running: bool
    wanted: bool
    grants: Grants
    boot: str | None
    revision: str | None
    told_revision: str | None
    behind_revision: str | None
    status_text: str
    status_set_at: int | None
    turn_state: str | None
    turn_state_since: int | None
    urgent_handed_id: int
    urgent_handings: int
    limits_lifted_until: int


_parent = agents.alias("parent")
_ROWS = select(agents, _parent.c.name.label("parent")).select_from(
    agents.outerjoin(_parent, agents.c.parent_id == _parent.c.id)
)
_LIVE = _ROWS.where(agents.c.destroyed_at.is_(None))
_BY_ID = _ROWS.where(agents.c.id == bindparam("agent_id"))
_COLUMNS = [column.name for column in _ROWS.selected_columns]
_LIVE_BY_ID = Prepared(_LIVE.where(agents.c.id == bindparam("agent_id")), _COLUMNS)
_LIVE_BY_ID_LOCKED = Prepared(
    _LIVE.where(agents.c.id == bindparam("agent_id")).with_for_update(of=agents), _COLUMNS
)
_LIVE_BY_NAME = Prepared(_LIVE.where(agents.c.name == bindparam("name")), _COLUMNS)
_LIVE_NAMES = select(agents.c.name).where(agents.c.destroyed_at.is_(None)).order_by(agents.c.name)
_LIVES = select(agents.c.id, agents.c.name).where(agents.c.destroyed_at.is_(None))
_LIVE_BLOCKS = select(agents.c.port_block).where(agents.c.destroyed_at.is_(None))


class AgentRows:
    """Reads and changes the registry.

    Args:
        connection: where it is.
        known: the writer's memory; none where nothing is written.
    """

    def __init__(self, connection: Connection, known: KnownAgents | None = None) -> None:
        self._connection = connection
        self._known = known

    def insert(
        self,
        *,
        name: str,
        parent_id: int | None,
        port_block: int,
        grants: Grants,
        created_at: int,
        wanted: bool = True,
    ) -> int:
        """Add an agent that is not running; returns its id."""
        values = {
            "name": name,
            "parent_id": parent_id,
            "port_block": port_block,
            "created_at": created_at,
            "running": False,
            "wanted": wanted,
            "status_text": "",
            "urgent_handed_id": 0,
            "limits_lifted_until": 0,
            **_encode_grants(grants),
        }
        key = self._connection.execute(insert(agents), values).inserted_primary_key
        assert key is not None
        self._forget(int(key[0]))
        return int(key[0])

    def find(self, agent_id: int) -> AgentRow | None:
        """An agent by id, destroyed or not."""
        row = self._connection.execute(_BY_ID, {"agent_id": agent_id}).first()
        return None if row is None else _decode(row)

    def find_live(self, agent_id: int, *, lock: bool = False) -> AgentRow | None:
        """A live agent by id; with `lock`, other brokers wait with theirs until this commits."""
        known = None if self._known is None else self._known.find(agent_id)
        if known is not None:
            # No need of a lock: it was read by the one who writes, and nobody else has written since.
            return known
        query = _LIVE_BY_ID_LOCKED if lock else _LIVE_BY_ID
        return self._keep(query.first(self._connection, agent_id=agent_id))

    def find_by_name(self, name: str) -> AgentRow | None:
        """The live agent of that name."""
        known = None if self._known is None else self._known.find_by_name(name)
        return known or self._keep(_LIVE_BY_NAME.first(self._connection, name=name))

    def has_lived(self, name: str, *, since: int) -> bool:
        """Whether an agent of that name lives, or was destroyed at `since` or later."""
        if self.find_by_name(name) is not None:
            return True
        ended = select(agents.c.id).where(agents.c.name == name, agents.c.destroyed_at >= since)
        return self._connection.scalar(ended.limit(1)) is not None

    def has_ever_lived(self, name: str) -> bool:
        """Whether an agent of that name lives, or ever did."""
        return self._connection.scalar(select(agents.c.id).where(agents.c.name == name).limit(1)) is not None

    def list_live(self) -> list[AgentRow]:
        """All live agents, by id."""
        return [_decode(row) for row in self._connection.execute(_LIVE.order_by(agents.c.id))]

    def list_all(self, *, limit: int) -> list[AgentRow]:
        """The newest `limit` agents, destroyed ones among them, by id."""
        query = _ROWS.order_by(agents.c.id.desc()).limit(limit)
        return [_decode(row) for row in self._connection.execute(query)][::-1]

    def list_grants(self, agent_ids: Collection[int]) -> dict[int, Grants]:
        """The grants of those of the agents that live."""
        found = self._connection.execute(_LIVE.where(agents.c.id.in_(agent_ids)))
        return {row.id: _decode(row).grants for row in found}

    def list_names(self) -> list[str]:
        """The names of all live agents."""
        return list(self._connection.scalars(_LIVE_NAMES))

    def list_lives(self) -> list[tuple[int, str]]:
        """Id and name of each live agent."""
        return [(row.id, row.name) for row in self._connection.execute(_LIVES)]

    def list_port_blocks(self) -> set[int]:
        """The port blocks that live agents hold."""
        return set(self._connection.scalars(_LIVE_BLOCKS))

    def set_grants(self, agent_id: int, grants: Grants) -> None:
        self._set(agent_id, **_encode_grants(grants))

    def set_boot(self, agent_id: int, boot: str) -> None:
        self._set(agent_id, boot=boot)

    def set_revision(self, agent_id: int, revision: str) -> None:
        self._set(agent_id, revision=revision)

    def set_told_revision(self, agent_id: int, revision: str, *, behind: str | None) -> None:
        """What its daemon runs, and the broker's revision where that is another."""
        self._set(agent_id, told_revision=revision, behind_revision=behind)

    def set_status(self, agent_id: int, *, text: str, set_at: int) -> None:
        self._set(agent_id, status_text=text, status_set_at=set_at)

    def set_turn_state(self, agent_id: int, *, state: str | None, since: int | None) -> None:
        self._set(agent_id, turn_state=state, turn_state_since=since)

    def note_urgent_handed(self, agent: AgentRow, message_id: int) -> None:
        """Remember the newest urgent row ever handed out to this agent, and how often one was."""
        self._set(
            agent.id,
            urgent_handed_id=max(message_id, agent.urgent_handed_id),
            urgent_handings=agent.urgent_handings + 1,
        )

    def lift_limits(self, agent_id: int, *, until: int) -> None:
        self._set(agent_id, limits_lifted_until=until)

    def set_running(self, agent_id: int, *, running: bool) -> None:
        """What the driver says."""
        self._set(agent_id, running=running)

    def set_wanted(self, agent_id: int, *, wanted: bool) -> None:
        self._set(agent_id, wanted=wanted)

    def list_children(self, agent_id: int) -> list[str]:
        """The names of the live agents right below one."""
        query = select(agents.c.name).where(agents.c.parent_id == agent_id, agents.c.destroyed_at.is_(None))
        return list(self._connection.scalars(query.order_by(agents.c.name)))

    def find_root(self) -> AgentRow | None:
        """The live agent without a parent; should there be several, the oldest."""
        query = _LIVE.where(agents.c.parent_id.is_(None)).order_by(agents.c.id).limit(1)
        row = self._connection.execute(query).first()
        return None if row is None else _decode(row)

    def reparent_children(self, agent_id: int, *, to: int | None) -> None:
        """Hang the live agents right below one below another."""
        self._connection.execute(
            update(agents)
            .where(agents.c.parent_id == agent_id, agents.c.destroyed_at.is_(None))
            .values(parent_id=to)
        )
        if self._known is not None:
            self._known.clear()

    def mark_destroyed(self, agent_id: int, *, at: int) -> None:
        """End this life: name and port block are free from now on. Its tokens are the caller's to drop."""
        self._set(
            agent_id, destroyed_at=at, running=False, wanted=False, turn_state=None, turn_state_since=None
        )

    def _set(self, agent_id: int, **values: object) -> None:
        self._forget(agent_id)
        self._connection.execute(update(agents).where(agents.c.id == agent_id).values(**values))

    def _forget(self, agent_id: int) -> None:
        if self._known is not None:
            self._known.forget(agent_id)

    def _keep(self, row: Any) -> AgentRow | None:  # noqa: ANN401 - a named tuple
        if row is None:
            return None
        agent = _decode(row)
        if self._known is not None:
            self._known.keep(agent)
        return agent


def _encode_grants(grants: Grants) -> dict[str, Any]:
    return {
        "groups": json.dumps(sorted(grants.groups)),
        "capabilities": json.dumps(sorted(grants.capabilities)),
        "recipients": json.dumps(sorted(grants.allowed_recipients)),
        "paths": json.dumps([path.model_dump(mode="json") for path in grants.paths]),
        "grants_version": grants.version,
    }


def _known(kind: type[E], values: Iterable[str]) -> list[E]:
    """Drop what a newer version may have stored and this one does not know."""
    known = {member.value for member in kind}
    return [kind(value) for value in values if value in known]


@lru_cache(2_048)
def _decode_grants(groups: str, capabilities: str, recipients: str, paths: str, version: int) -> Grants:
    return Grants(
        groups=_known(ToolGroup, json.loads(groups)),
        capabilities=_known(Capability, json.loads(capabilities)),
        allowed_recipients=json.loads(recipients),
        paths=[GrantedPath.model_validate(path) for path in json.loads(paths)],
        version=version,
    )


def _decode(row: Any) -> AgentRow:  # noqa: ANN401 - a row of SQLAlchemy or a named tuple
    return AgentRow(
        id=row.id,
        name=row.name,
        parent_id=row.parent_id,
        parent=row.parent,
        port_block=row.port_block,
        created_at=row.created_at,
        destroyed_at=row.destroyed_at,
        running=bool(row.running),
        wanted=bool(row.wanted),
        grants=_decode_grants(row.groups, row.capabilities, row.recipients, row.paths, row.grants_version),
        boot=row.boot,
        revision=row.revision,
        told_revision=row.told_revision,
        behind_revision=row.behind_revision,
        status_text=row.status_text,
        status_set_at=row.status_set_at,
        turn_state=row.turn_state,
        turn_state_since=row.turn_state_since,
        urgent_handed_id=row.urgent_handed_id,
        urgent_handings=row.urgent_handings,
        limits_lifted_until=row.limits_lifted_until,
    )
