"""Changes of an agent's revision: each is a notice, which is kept for days, so an agent gets to make few."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.pace import Pace
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from shared.errors import HiveError
from shared.wire.notices import NoticeEvent

AT_ONCE: Final = 5
SECONDS_EACH: Final = 600.0
RETRY_SECONDS: Final = 60.0

_log = structlog.get_logger(__name__)


class AppendNotice(Protocol):
    """Writes a notice into the outbox, in the transaction of the change."""

    def __call__(self, tx: Tx, *, agent: str, event: NoticeEvent, data: Mapping[str, Any]) -> None: ...


class Revisions:
    """Notes and tells what daemons run. Run `run` in a task, for changes that had to wait.

    Args:
        store: where revisions are kept.
        append_notice: for `revision_changed`.
        clock: for the pace.
    """

    def __init__(self, store: Store, *, append_notice: AppendNotice, clock: Clock) -> None:
        self._store = store
        self._append_notice = append_notice
        self._pace = Pace(at_once=AT_ONCE, seconds_each=SECONDS_EACH, clock=clock)
        self._waiting: dict[int, str] = {}

    def change(self, tx: Tx, agent: AgentRow, revision: str) -> bool:
        """Note a revision, and tell of it when it is new; False when that has to wait."""
        if agent.revision == revision:
            return True
        if agent.revision is not None:
            if self._pace.take(agent.id):
                return False
            change = {"agent_id": agent.id, "from": agent.revision, "to": revision}
            self._append_notice(tx, agent=agent.name, event=NoticeEvent.REVISION_CHANGED, data=change)
        tx.agents.set_revision(agent.id, revision)
        return True

    def settle(self, agent_id: int, revision: str, *, is_told: bool) -> None:
        """Say what came of a `change` that was committed: of those that wait the last one counts."""
        if is_told:
            self._waiting.pop(agent_id, None)
            return
        if agent_id not in self._waiting:
            _log.warning("revision_changes_too_fast", agent_id=agent_id)
        self._waiting[agent_id] = revision

    async def run(self) -> None:
        """Try what waits now and then, until cancelled."""
        while True:
            await anyio.sleep(RETRY_SECONDS)
            await self.tell_waiting()

    async def tell_waiting(self) -> None:
        """Tell of changes that may be told by now."""
        for agent_id, revision in list(self._waiting.items()):
            try:
                is_told = await self._store.write(partial(self._tell, agent_id=agent_id, revision=revision))
            except HiveError as exc:
                _log.warning("revision_not_told", agent_id=agent_id, code=exc.code)
                continue
            if is_told and self._waiting.get(agent_id) == revision:
                del self._waiting[agent_id]

    def _tell(self, tx: Tx, *, agent_id: int, revision: str) -> bool:
        agent = tx.agents.find_live(agent_id, lock=True)
        return agent is None or self.change(tx, agent, revision)
