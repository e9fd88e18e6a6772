"""What agents' daemons run: a change is a notice, and the root agent hears of what the broker does not run.

Both are kept, so an agent gets to make few.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.pace import Pace
from services.broker.service.system_mail import send_system_message
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
        deployed: what the broker itself runs.
        clock: for the pace.
    """

    def __init__(self, store: Store, *, append_notice: AppendNotice, deployed: str, clock: Clock) -> None:
        self._store = store
        self._append_notice = append_notice
        self._deployed = deployed
        self._clock = clock
        self._pace = Pace(at_once=AT_ONCE, seconds_each=SECONDS_EACH, clock=clock)
        self._waiting: set[int] = set()

    def change(self, tx: Tx, agent: AgentRow, revision: str) -> bool:
        """Note a revision; tell of it if it or the broker's own is new. False when telling has to wait."""
        if agent.revision != revision:
            tx.agents.set_revision(agent.id, revision)
        told = agent.told_revision
        is_new = told != revision
        behind = None if revision == self._deployed else self._deployed
        if not is_new and agent.behind_revision == behind:
            return True
        # The first revision of a life is no change, and comes only once.
        if told is not None and (is_new or behind) and self._pace.take(agent.id):
            return False
        if is_new and told is not None:
            change = {"agent_id": agent.id, "from": told, "to": revision}
            self._append_notice(tx, agent=agent.name, event=NoticeEvent.REVISION_CHANGED, data=change)
        if behind is not None:
            self._send_needs_update(tx, agent, revision)
        tx.agents.set_told_revision(agent.id, revision, behind=behind)
        return True

    def _send_needs_update(self, tx: Tx, agent: AgentRow, running: str) -> None:
        """`NeedsUpdate` to the root agent, also of itself; no inbox is too full for it."""
        body = {
            "event": "NeedsUpdate",
            "agent": agent.name,
            "running_rev": running,
            "deployed_rev": self._deployed,
        }
        send_system_message(tx, tx.agents.find_root(), body, at=self._clock())

    def settle(self, agent_id: int, *, is_told: bool) -> None:
        """Say what came of a `change` that was committed: of those that wait the last one counts."""
        if is_told:
            self._waiting.discard(agent_id)
            return
        if agent_id not in self._waiting:
            _log.warning("revision_changes_too_fast", agent_id=agent_id)
        self._waiting.add(agent_id)

    async def run(self) -> None:
        """Try what waits now and then, until cancelled."""
        while True:
            await anyio.sleep(RETRY_SECONDS)
            await self.tell_waiting()

    async def tell_waiting(self) -> None:
        """Tell of changes that may be told by now."""
        for agent_id in list(self._waiting):
            # Before: a change that comes meanwhile and has to wait is put back by its `settle`.
            self._waiting.discard(agent_id)
            try:
                is_told = await self._store.write(partial(self._tell, agent_id=agent_id))
            except HiveError as exc:
                _log.warning("revision_not_told", agent_id=agent_id, code=exc.code)
                is_told = False
            if not is_told:
                self._waiting.add(agent_id)

    def _tell(self, tx: Tx, *, agent_id: int) -> bool:
        agent = tx.agents.find_live(agent_id, lock=True)
        return agent is None or agent.revision is None or self.change(tx, agent, agent.revision)
