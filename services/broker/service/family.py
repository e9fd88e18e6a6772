"""Who stands below whom in the tree of agents."""

from __future__ import annotations

from collections.abc import Sequence

from services.broker.service.naming import find_agent, unknown_agent
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from shared.errors import Forbidden, InvalidInput


def is_self_or_below(tx: Tx, agent: AgentRow, above: AgentRow) -> bool:
    """Whether `agent` is `above` itself, or stands below it however deep."""
    seen: set[int] = set()
    current: AgentRow | None = agent
    while current is not None and current.id not in seen:
        if current.id == above.id:
            return True
        seen.add(current.id)
        current = None if current.parent_id is None else tx.agents.find_live(current.parent_id)
    return False


def list_self_and_below(tx: Tx, above: AgentRow) -> list[AgentRow]:
    """`above` and all live agents below it."""
    found = {above.id: above}
    live = tx.agents.list_live()
    grows = True
    while grows:
        more = [one for one in live if one.parent_id in found and one.id not in found]
        found |= {one.id: one for one in more}
        grows = bool(more)
    return list(found.values())


def resolve_targets(tx: Tx, me: AgentRow, names: Sequence[str]) -> list[AgentRow]:
    """The agents of these names, each of which must be `me` or stand below.

    Raises:
        NotFound: for a name that is no agent's, with those that could be meant.
        Forbidden: for an agent elsewhere in the tree.
        InvalidInput: for a name given twice.
    """
    if len(set(names)) != len(names):
        raise InvalidInput("targets: a name is given twice; give each once")
    found = []
    for name in names:
        agent = find_agent(tx, name)
        if agent is None:
            known = [one.name for one in list_self_and_below(tx, me)]
            raise unknown_agent(name, known, instead="you can take")
        if not is_self_or_below(tx, agent, me):
            raise Forbidden(
                f"{agent.name} is not below {me.name}: a schedule goes to yourself and to agents below you, "
                "nobody else",
                code="not_below",
                details={"target": agent.name},
            )
        found.append(agent)
    return found
