"""The open threads of an agent that the broker knows of."""

from __future__ import annotations

from typing import Final

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.rights import require_tool
from services.broker.service.sent import describe_recipient
from services.broker.store import Store, Tx
from services.broker.store.sent import SentRow
from shared.prose import one_line
from shared.wire.approvals import Approval
from shared.wire.loose_ends import BrokerLooseEnds, LooseEnd
from shared.wire.reminders import Reminder

MAX_OF_A_KIND: Final = 1_000
# Longer than an agent that works usually takes; after a week it is no news any more.
LONG_SECONDS: Final = 3_600
NEWS_SECONDS: Final = 7 * 24 * 3_600
MAX_SENT: Final = 20


class LooseEndService:
    """Lists; what each kind may do is its own service's."""

    def __init__(self, store: Store, hub: ControlHub, *, clock: Clock) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock

    async def list_own(self, caller: AgentCaller) -> BrokerLooseEnds:
        """The caller's reminders, its unseen mail, what it asked the operator, what it sent and still waits.

        What nobody submitted is the root agent's. Messages to the operator, who reads without acking, are
        left out.

        Raises:
            Forbidden: without the group.
        """
        connected, now = self._hub.list_connected(), self._clock()

        def work(tx: Tx) -> BrokerLooseEnds:
            me = get_self(tx, caller)
            require_tool(me, "get_loose_ends")
            undelivered = tx.inbox.count_pending(me.id)
            is_root = me.parent_id is None
            approvals = tx.approvals.list_pending_of(me.id, unowned=is_root, limit=MAX_OF_A_KIND)
            reminders = tx.reminders.list_page(agent_id=me.id, limit=MAX_OF_A_KIND)
            sent = tx.sent.list_waiting(
                me.id, since=now - NEWS_SECONDS, until=now - LONG_SECONDS, limit=MAX_SENT
            )
            return BrokerLooseEnds(
                loose_ends=[
                    *([LooseEnd(kind="inbox", id=0, undelivered=undelivered)] if undelivered else []),
                    *(_show_approval(row) for row in approvals),
                    *(_show_reminder(row) for row in reminders),
                    *(_show_sent(row, connected) for row in sent),
                ]
            )

        return await self._store.read(work)


def _show_reminder(row: Reminder) -> LooseEnd:
    return LooseEnd(
        kind="reminder", id=row.id, summary=one_line(row.body), due_at=row.due_at, held=row.held or None
    )


def _show_sent(row: SentRow, connected: frozenset[int]) -> LooseEnd:
    """`to iris, who is stopped: pending`."""
    message = row.message
    count = message.delivered_count
    times = f", handed out {'once' if count == 1 else f'{count} times'}" if count else ""
    state = f"to {message.recipient}, who is {describe_recipient(row, connected)}: {message.state}{times}"
    return LooseEnd(kind="sent", id=message.id, summary=state, created_at=message.sent_at)


def _show_approval(row: Approval) -> LooseEnd:
    return LooseEnd(
        kind="approval",
        id=row.id,
        asks=row.kind,
        summary=row.summary,
        created_at=row.created_at,
        deadline_at=row.deadline_at,
    )
