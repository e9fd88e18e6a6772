"""What became of messages, for their senders and for the operator."""

from __future__ import annotations

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.hub import ControlHub
from services.broker.service.naming import get_agent
from services.broker.service.rights import require_tool
from services.broker.store import Store, Tx
from services.broker.store.sent import SentRow
from shared.errors import NotFound
from shared.wire.messages import SentMessage, SentPage
from shared.wire.names import OPERATOR


class SentService:
    """Looks at messages that were sent; changes nothing."""

    def __init__(self, store: Store, hub: ControlHub) -> None:
        self._store = store
        self._hub = hub

    async def get_own(self, caller: AgentCaller, message_id: int) -> SentMessage:
        """How a message stands that the caller sent, without its body.

        Raises:
            NotFound: when there is none by this id.
        """

        def work(tx: Tx) -> SentRow:
            require_tool(get_self(tx, caller), "send")
            found = tx.sent.find_own(message_id, caller.agent_id)
            if found is None:
                raise NotFound(
                    f"you sent no message #{message_id}, or it was acked so long ago that it was removed"
                )
            return found

        return self._show(await self._store.read(work)).model_copy(update={"body": ""})

    async def get(self, message_id: int) -> SentMessage:
        """How any message stands, for the operator.

        Raises:
            NotFound: when there is none by this id.
        """
        found = await self._store.read(lambda tx: tx.sent.find(message_id))
        if found is None:
            raise NotFound(
                f"there is no message {message_id}, or it was acked so long ago that it was removed"
            )
        return self._show(found)

    async def get_page(self, agent: str | None, *, limit: int, before: int | None) -> SentPage:
        """What the operator, or an agent, has sent and nobody has acked yet.

        Raises:
            NotFound: when there is no such agent.
        """

        def work(tx: Tx) -> list[SentRow]:
            sender_id = None if agent is None else get_agent(tx, agent).id
            return tx.sent.list_open(sender_id, limit=limit + 1, before=before)

        rows = await self._store.read(work)
        more = len(rows) > limit
        return SentPage(messages=[self._show(row) for row in (rows[1:] if more else rows)], more=more)

    def _show(self, row: SentRow) -> SentMessage:
        state = describe_recipient(row, self._hub.list_connected())
        return SentMessage(**row.message.model_dump(), recipient_state=state)


def describe_recipient(row: SentRow, connected: frozenset[int]) -> str:
    """How its recipient stands, in a word."""
    if row.recipient_id is None:
        return OPERATOR
    if row.is_destroyed:
        return "destroyed"
    return "running" if row.running or row.recipient_id in connected else "stopped"
