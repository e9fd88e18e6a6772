"""Receiving: handing out, acking, returning to pending; and the operator's views, which change nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

import structlog

from services.broker.service.boots import adopt_boot
from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.idempotency import AnswerMeter, Attempt, find_answer, keep_answer
from services.broker.service.naming import get_agent
from services.broker.service.parking import MAX_FAILED_TURNS, note_parked
from services.broker.service.refusals import RefusalLog
from services.broker.service.rights import require_tool
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from services.broker.store.inbox import Acked, UrgentHanded
from shared.errors import InvalidInput
from shared.prose import quote
from shared.wire.messages import (
    AckRequest,
    AckResult,
    InboxLevel,
    InboxQuery,
    MarkReadRequest,
    Message,
    MessagePage,
    MessageState,
    RecvRequest,
    RecvResult,
    ReleaseRequest,
    ReleaseResult,
    StatesRequest,
    StatesResult,
)
from shared.wire.names import OPERATOR

# What a row costs in an answer beside its body: marker, sender, age, fence.
ROW_BYTES = 400
MAX_ACKED_IDS = 1_000
MAX_PARKED_NOTED = 100

_log = structlog.get_logger(__name__)


class InboxService:
    """Mailboxes of agents and of the operator."""

    def __init__(self, store: Store, refusals: RefusalLog, *, answers: AnswerMeter, clock: Clock) -> None:
        self._store = store
        self._refusals = refusals
        self._answers = answers
        self._clock = clock

    async def recv(self, caller: AgentCaller, request: RecvRequest, *, key: str | None) -> RecvResult:
        """Hand out the next rows; a repeat under the same key gets those of them that are still out by it.

        Raises:
            Forbidden: without the group.
            Conflict: from a daemon that a later start has replaced, or for a key used otherwise.
        """
        attempt = Attempt.of(caller.scope, key, "recv", request)
        now = self._clock()

        def work(tx: Tx) -> RecvResult:
            me = get_self(tx, caller, lock=True)
            require_tool(me, "recv")
            if request.boot is not None:
                adopt_boot(tx, me, request.boot)
            if (given := find_answer(tx, attempt)) is not None:
                # What was acked or given back since is not handed out a second time by a repeat.
                rows = tx.inbox.list_still_delivered(me.id, dict(json.loads(given)))
            else:
                rows = _hand_out(tx, me, request, now=now)
                counts = [(row.id, row.delivered_count) for row in rows]
                keep_answer(tx, attempt, json.dumps(counts), now=now)
            return RecvResult(messages=rows, pending=tx.inbox.count_pending(me.id))

        result = await self._store.write(work)
        self._answers.note(attempt)
        return result

    async def ack(self, caller: AgentCaller, request: AckRequest) -> AckResult:
        """Ack own rows up to an id, but for those that an urgent row overtook unseen.

        Raises:
            Forbidden: without the group.
        """
        now = self._clock()

        def work(tx: Tx) -> AckResult:
            me = get_self(tx, caller, lock=True)
            require_tool(me, "ack_until")
            urgent = UrgentHanded(me.urgent_handed_id, me.urgent_handings)
            return _ack_result(tx.inbox.ack_until(me.id, request.up_to, at=now, urgent=urgent))

        return await self._store.write(work)

    async def release(
        self, caller: AgentCaller, request: ReleaseRequest, *, key: str | None
    ) -> ReleaseResult:
        """Return own delivered rows to pending; in no tool group, for it only makes things be seen again.

        A failed turn counts on each of its rows; the fifth parks them. A repeat under the same key does
        nothing: the rows may be in other hands by then.

        Raises:
            Conflict: for a key used otherwise.
        """
        attempt = Attempt.of(caller.scope, key, "release", request)
        now = self._clock()

        def work(tx: Tx) -> tuple[ReleaseResult, list[Message | None]]:
            me = get_self(tx, caller, lock=True)
            if (given := find_answer(tx, attempt)) is not None:
                return ReleaseResult.model_validate_json(given), []
            result = _release(tx, me, request, now=now)
            keep_answer(tx, attempt, result.model_dump_json(), now=now)
            return result, [tx.parked.find(number) for number in result.parked[:MAX_PARKED_NOTED]]

        result, parked = await self._store.write(work)
        self._answers.note(attempt)
        if result.parked:
            _log.warning("messages_parked", agent=caller.name, ids=result.parked[:20])
        for message in parked:
            if message is not None:
                note_parked(self._refusals, message)
        return result

    async def get_states(self, caller: AgentCaller, request: StatesRequest) -> StatesResult:
        """How own rows stand; in no tool group, for it only lets a daemon tidy up after them."""

        def work(tx: Tx) -> StatesResult:
            return StatesResult(states=tx.inbox.list_states(get_self(tx, caller).id, request.ids))

        return await self._store.read(work)

    async def get_level(self, caller: AgentCaller) -> InboxLevel:
        """How many rows wait; in no tool group, for it only lets a daemon see whether to wake its agent."""
        counted = await self._store.read(lambda tx: tx.inbox.count_pending(caller.agent_id), snapshot=False)
        return InboxLevel(pending=counted)

    async def get_page(self, query: InboxQuery, *, agent: str | None = None) -> MessagePage:
        """A page of an agent's inbox, or of the operator's.

        Raises:
            NotFound: when no agent has the name.
        """

        def work(tx: Tx) -> MessagePage:
            owner = None if agent is None else get_agent(tx, agent).id
            rows = tx.inbox.list_page(
                owner, include_acked=query.include_acked, limit=query.limit + 1, before=query.before
            )
            more = len(rows) > query.limit
            return MessagePage(
                messages=rows[1:] if more else rows, pending=tx.inbox.count_pending(owner), more=more
            )

        return await self._store.read(work)

    async def mark_read(self, request: MarkReadRequest, *, agent: str | None = None) -> AckResult:
        """Ack rows as the operator: their own, or those of an agent's inbox, unseen ones among them.

        Parked rows are acked only when they are named.

        Raises:
            InvalidInput: unless exactly one of ids and up_to is given.
            NotFound: when no agent has the name.
        """
        if (request.ids is None) == (request.up_to is None):
            raise InvalidInput("give exactly one of ids and up_to")
        now = self._clock()

        def work(tx: Tx) -> AckResult:
            owner = None if agent is None else get_agent(tx, agent, lock=True).id
            if request.up_to is not None:
                return _ack_result(tx.inbox.ack_until(owner, request.up_to, at=now))
            return _ack_result(Acked(tx.inbox.ack_ids(owner, request.ids or [], at=now), [], 0))

        result = await self._store.write(work)
        _log.info("marked_read", inbox=agent or OPERATOR, rows=result.acked)
        return result


def _release(tx: Tx, me: AgentRow, request: ReleaseRequest, *, now: int) -> ReleaseResult:
    if not request.failed or request.turn is None:
        return ReleaseResult(released=tx.inbox.release(me.id, ids=request.ids, turn=request.turn))
    released, parked = tx.parked.fail_turn(
        me.id, request.turn, ids=request.ids, most=MAX_FAILED_TURNS, at=now
    )
    return ReleaseResult(released=released, parked=parked)


def _hand_out(tx: Tx, me: AgentRow, request: RecvRequest, *, now: int) -> list[Message]:
    rows = _fitting(tx.inbox.list_next(me.id, limit=request.max), request.max_bytes)
    if not rows:
        return []
    tx.inbox.mark_delivered(me.id, [row.id for row in rows], at=now, turn=request.turn)
    tx.handed.record(me.id, {row.hops for row in rows}, at=now, turn=request.turn)
    newest_urgent = max((row.id for row in rows if row.urgent), default=0)
    if newest_urgent:
        tx.agents.note_urgent_handed(me, newest_urgent)
    return [
        row.model_copy(
            update={
                "state": MessageState.DELIVERED,
                "delivered_at": now,
                "delivered_count": row.delivered_count + 1,
            }
        )
        for row in rows
    ]


def _fitting(rows: Sequence[Message], max_bytes: int) -> list[Message]:
    """The rows that fit, in order; the first one always does."""
    fitting: list[Message] = []
    size = 0
    for row in rows:
        # As it will be shown: what does not fit then would be cut off after it counts as handed out.
        size += len(quote(row.body).encode()) + ROW_BYTES
        if fitting and size > max_bytes:
            break
        fitting.append(row)
    return fitting


def _ack_result(done: Acked) -> AckResult:
    return AckResult(
        acked=len(done.ids),
        stayed=done.stayed,
        stayed_count=done.stayed_count,
        acked_ids=done.ids[-MAX_ACKED_IDS:],
    )
