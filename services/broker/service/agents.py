"""The registry as operator and agents see it: creating, listing, and what one may know of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.identity import HiveIdentity
from services.broker.service.naming import get_agent
from services.broker.service.rights import require_tool
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from shared.errors import Conflict, LimitExceeded
from shared.permissions import AGENT_DEFAULT, CAPABILITY_DEFAULT
from shared.wire.agents import Agent, AgentMeta, AgentSelf, CreateAgent, Grants

MAX_LISTED = 5_000

Counted = tuple[AgentRow, int]

_log = structlog.get_logger(__name__)


class AgentService:
    """Creates and shows agents.

    Args:
        store: the registry.
        hub: says which daemons are connected.
        identity: names of the hive.
        max_agents: how many may live at once.
        clock: for times of creation.
    """

    def __init__(
        self, store: Store, hub: ControlHub, *, identity: HiveIdentity, max_agents: int, clock: Clock
    ) -> None:
        self._store = store
        self._hub = hub
        self._identity = identity
        self._max_agents = max_agents
        self._clock = clock
        # Called when an agent was created.
        self.on_change: Callable[[], None] = lambda: None

    async def create(self, request: CreateAgent) -> Agent:
        """Create an agent with the default permissions and the lowest free port block.

        Repeating it with the same name and token answers with the agent that is there.

        Raises:
            Conflict: when the name or the token is taken.
            NotFound: when the parent does not exist.
            LimitExceeded: when there are too many agents.
        """
        now = self._clock()

        def work(tx: Tx) -> Counted:
            owner = tx.tokens.find_owner(request.token_sha256)
            existing = tx.agents.find_by_name(request.name)
            if existing is not None and owner is not None and owner[0] == existing.id:
                return _count(tx, [existing])[0]
            if existing is not None:
                raise Conflict(f"there is an agent {request.name} already; destroy it or take another name")
            if owner is not None:
                raise Conflict("this token belongs to another agent; make a new one")
            parent = None if request.parent is None else get_agent(tx, request.parent)
            blocks = tx.agents.list_port_blocks()
            if len(blocks) >= self._max_agents:
                raise LimitExceeded(
                    f"there are {len(blocks)} agents, which is the limit; destroy one, or raise "
                    "HIVE_BROKER_MAX_AGENTS",
                    details={"limit": self._max_agents},
                )
            agent_id = tx.agents.insert(
                name=request.name,
                parent_id=None if parent is None else parent.id,
                port_block=next(block for block in range(len(blocks) + 1) if block not in blocks),
                grants=Grants(
                    groups=sorted(AGENT_DEFAULT), capabilities=sorted(CAPABILITY_DEFAULT), version=1
                ),
                created_at=now,
                wanted=request.wanted,
            )
            tx.tokens.insert(request.token_sha256, agent_id=agent_id, created_at=now)
            tx.on_commit(self.on_change)
            return _count(tx, [get_agent(tx, request.name)])[0]

        agent = self._show(await self._store.write(work))
        _log.info("agent_created", agent=agent.name, agent_id=agent.id, parent=agent.parent)
        return agent

    async def list_lives(self) -> list[tuple[int, str]]:
        """Id and name of each agent that lives."""
        return await self._store.read(lambda tx: tx.agents.list_lives())

    async def list_agents(self, *, destroyed: bool) -> list[Agent]:
        """All live agents by age; with `destroyed` also those that are no more, the newest 5000 rows."""

        def work(tx: Tx) -> list[Counted]:
            return _count(tx, tx.agents.list_all(limit=MAX_LISTED) if destroyed else tx.agents.list_live())

        return [self._show(row) for row in await self._store.read(work)]

    async def get(self, name: str) -> Agent:
        """A live agent.

        Raises:
            NotFound: when there is none of that name.
        """
        return self._show(await self._store.read(lambda tx: _count(tx, [get_agent(tx, name)])[0]))

    async def get_self(self, caller: AgentCaller) -> AgentSelf:
        """Who the caller is."""
        me = await self._store.read(lambda tx: get_self(tx, caller))
        return AgentSelf(
            id=me.id,
            name=me.name,
            hive_name=self._identity.hive_name,
            swarm_name=self._identity.swarm_name,
            broker_revision=self._identity.revision,
            grants=me.grants,
        )

    async def get_meta(self, caller: AgentCaller, name: str | None) -> AgentMeta:
        """What the caller may know of an agent, itself by default.

        Raises:
            Forbidden: without the group.
            NotFound: when there is none of that name.
        """

        def work(tx: Tx) -> AgentRow:
            me = get_self(tx, caller)
            require_tool(me, "get_agent_meta")
            return me if name is None else get_agent(tx, name)

        row = await self._store.read(work)
        return AgentMeta(
            name=row.name,
            hyperhive_rev=row.revision,
            running=row.running or self._hub.is_running(row.id),
            status_text=row.status_text,
            status_set_at=row.status_set_at,
            turn_state=row.turn_state,
            hive_name=self._identity.hive_name,
            swarm_name=self._identity.swarm_name,
        )

    def _show(self, counted: Counted) -> Agent:
        # In the event loop, where the hub may be asked; the database part runs in other threads.
        row, pending = counted
        return Agent(
            id=row.id,
            name=row.name,
            parent=row.parent,
            port_block=row.port_block,
            running=row.running or self._hub.is_running(row.id),
            wanted=row.wanted,
            destroyed=row.destroyed_at is not None,
            created_at=row.created_at,
            grants=row.grants,
            revision=row.revision,
            status_text=row.status_text,
            status_set_at=row.status_set_at,
            turn_state=row.turn_state,
            turn_state_since=row.turn_state_since,
            pending=pending,
            connected_units=self._hub.list_units(row.id),
        )


def _count(tx: Tx, rows: Sequence[AgentRow]) -> list[Counted]:
    """The rows, each with how many messages are pending in its inbox."""
    pending = tx.inbox.count_pending_by_agent([row.id for row in rows])
    return [(row, pending.get(row.id, 0)) for row in rows]
