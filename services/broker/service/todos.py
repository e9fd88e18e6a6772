"""Agents' open todos for the operator's eyes: what their daemons last reported, also while they are down."""

from __future__ import annotations

from services.broker.service.hub import ControlHub
from services.broker.service.naming import get_agent
from services.broker.store import Store, Tx
from shared.wire.todos import TodoMirror, TodoPage


class TodoReview:
    """Shows them."""

    def __init__(self, store: Store, hub: ControlHub) -> None:
        self._store = store
        self._hub = hub

    async def get_page(self, name: str) -> TodoPage:
        """What was last reported of an agent.

        Raises:
            NotFound: when no agent has the name.
        """

        def work(tx: Tx) -> tuple[int, TodoMirror | None]:
            agent = get_agent(tx, name)
            return agent.id, tx.todos.find(agent.id)

        agent_id, mirror = await self._store.read(work)
        reported = {} if mirror is None else mirror.model_dump(exclude_none=True)
        return TodoPage.model_validate({**reported, "connected": self._hub.is_running(agent_id)})
