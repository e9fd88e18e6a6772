"""The open threads of an agent that the broker knows of."""

from __future__ import annotations

from typing import Final

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.rights import require_tool
from services.broker.store import Store, Tx
from shared.prose import one_line
from shared.wire.approvals import Approval
from shared.wire.loose_ends import BrokerLooseEnds, LooseEnd
from shared.wire.reminders import Reminder

MAX_OF_A_KIND: Final = 1_000


class LooseEndService:
    """Lists; what each kind may do is its own service's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_own(self, caller: AgentCaller) -> BrokerLooseEnds:
        """The caller's reminders, how much of its mail nobody has seen, and what it asked the operator.

        What nobody submitted is the root agent's.

        Raises:
            Forbidden: without the group.
        """

        def work(tx: Tx) -> BrokerLooseEnds:
            me = get_self(tx, caller)
            require_tool(me, "get_loose_ends")
            undelivered = tx.inbox.count_pending(me.id)
            is_root = me.parent_id is None
            approvals = tx.approvals.list_pending_of(me.id, unowned=is_root, limit=MAX_OF_A_KIND)
            reminders = tx.reminders.list_page(agent_id=me.id, limit=MAX_OF_A_KIND)
            return BrokerLooseEnds(
                loose_ends=[
                    *([LooseEnd(kind="inbox", id=0, undelivered=undelivered)] if undelivered else []),
                    *(_show_approval(row) for row in approvals),
                    *(_show_reminder(row) for row in reminders),
                ]
            )

        return await self._store.read(work)


def _show_reminder(row: Reminder) -> LooseEnd:
    return LooseEnd(
        kind="reminder", id=row.id, summary=one_line(row.body), due_at=row.due_at, held=row.held or None
    )


def _show_approval(row: Approval) -> LooseEnd:
    return LooseEnd(
        kind="approval",
        id=row.id,
        asks=row.kind,
        summary=row.summary,
        created_at=row.created_at,
        deadline_at=row.deadline_at,
    )
