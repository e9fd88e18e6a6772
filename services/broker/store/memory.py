"""What the writer remembers of the database from one transaction to the next, to ask it less often.

Right as long as nobody else writes: `clear` it when somebody did, and when a transaction was undone. What is
changed is changed here in the same breath, so that a unit of work sees what it has done itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.broker.store.agents import AgentRow


class PendingGauge:
    """How many messages wait in each inbox; None is the operator's. What is not known must be counted."""

    def __init__(self) -> None:
        self._counts: dict[int | None, int] = {}
        self._touched: set[int | None] = set()

    @property
    def is_touched(self) -> bool:
        return bool(self._touched)

    def begin_part(self) -> None:
        """The next unit of work begins."""
        if self._touched:
            self._touched = set()

    def list_touched(self) -> dict[int, int | None]:
        """The agents' inboxes that the unit has changed, each with how many wait now, if that is known."""
        return {box: self._counts.get(box) for box in self._touched if box is not None}

    def find(self, mailbox: int | None) -> int | None:
        return self._counts.get(mailbox)

    def set(self, mailbox: int | None, counted: int) -> None:
        self._counts[mailbox] = counted

    def add(self, mailbox: int | None, more: int) -> None:
        """Note that so many more wait; fewer, if it is negative."""
        self._touched.add(mailbox)
        if mailbox in self._counts:
            self._counts[mailbox] += more

    def forget(self, mailbox: int | None) -> None:
        """Note that nobody knows how many wait now."""
        self._touched.add(mailbox)
        self._counts.pop(mailbox, None)

    def clear(self) -> None:
        self._counts.clear()


class KnownAgents:
    """Rows of live agents, as they were read."""

    def __init__(self) -> None:
        self._by_id: dict[int, AgentRow] = {}
        self._by_name: dict[str, AgentRow] = {}
        self.is_touched = False

    def find(self, agent_id: int) -> AgentRow | None:
        return self._by_id.get(agent_id)

    def find_by_name(self, name: str) -> AgentRow | None:
        return self._by_name.get(name)

    def keep(self, row: AgentRow) -> None:
        self._by_id[row.id] = self._by_name[row.name] = row

    def forget(self, agent_id: int) -> None:
        """Note that it has changed."""
        self.is_touched = True
        row = self._by_id.pop(agent_id, None)
        if row is not None:
            del self._by_name[row.name]

    def clear(self) -> None:
        """Note that any may have changed."""
        self.is_touched = True
        self._by_id.clear()
        self._by_name.clear()


@dataclass(frozen=True, slots=True)
class Handed:
    """When, and in which turn, an agent was last handed a row of so many hops."""

    hops: int
    at: int
    turn: str | None


class KnownHops:
    """What agents were handed, all of it for each."""

    def __init__(self) -> None:
        self._by_agent: dict[int, list[Handed]] = {}
        self.is_touched = False

    def find(self, agent_id: int) -> list[Handed] | None:
        return self._by_agent.get(agent_id)

    def keep(self, agent_id: int, handed: list[Handed]) -> None:
        self._by_agent[agent_id] = handed

    def forget(self, agent_id: int) -> None:
        """Note that there is more."""
        self.is_touched = True
        self._by_agent.pop(agent_id, None)

    def clear(self) -> None:
        self._by_agent.clear()


class Memory:
    """All of it. For the writer's thread only."""

    def __init__(self) -> None:
        self.pending = PendingGauge()
        self.agents = KnownAgents()
        self.hops = KnownHops()

    def begin_part(self) -> None:
        """The next unit of work begins."""
        self.pending.begin_part()
        self.agents.is_touched = self.hops.is_touched = False

    def undo_part(self) -> None:
        """What the unit did was undone, and with it what is remembered of that."""
        if self.pending.is_touched or self.agents.is_touched or self.hops.is_touched:
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.pending.clear()
        self.agents.clear()
        self.hops.clear()
