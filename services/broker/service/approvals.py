"""Approvals as callers see them: agents ask and wait, the operator decides, once; kept for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import anyio
import structlog

from services.broker.service.callers import AgentCaller, get_self
from services.broker.service.clock import Clock
from services.broker.service.due import announce
from services.broker.service.idempotency import AnswerMeter, Attempt, answer_once
from services.broker.service.naming import require_name
from services.broker.service.rights import require_capability, require_group, require_tool
from services.broker.service.settling import Settling
from services.broker.store import Store, Topic, Tx
from services.broker.store.agents import AgentRow
from shared.errors import Conflict, Forbidden, NotFound
from shared.permissions import Capability, ToolGroup
from shared.wire.approvals import (
    Approval,
    ApprovalKind,
    ApprovalPage,
    ApprovalQuery,
    ApprovalStatus,
    AskPermission,
    Decision,
)
from shared.wire.names import OPERATOR

EXPIRED_BY = "deadline"

_log = structlog.get_logger(__name__)


class ApprovalService:
    """Questions to the operator.

    Args:
        store: where they are.
        settling: what happens to them.
        answers: hears of every answer that is kept.
        clock: for deadlines.
        wake: called in the event loop when a new deadline is committed.
    """

    def __init__(
        self,
        store: Store,
        settling: Settling,
        *,
        answers: AnswerMeter,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._settling = settling
        self._answers = answers
        self._clock = clock
        self._wake = wake
        self._changed = anyio.Event()
        self._is_closed = False
        settling.on_change = self._note_change
        store.on_news(Topic.APPROVALS, lambda _subject: self._note_change())

    def close(self) -> None:
        """Let everybody who waits go, because the broker stops."""
        self._is_closed = True
        self._note_change()

    async def ask_permission(
        self, caller: AgentCaller, request: AskPermission, *, key: str | None
    ) -> Approval:
        """Ask whether a tool may be used; what is not answered by the deadline is denied.

        Raises:
            Forbidden: without the capability; then it is denied already.
            LimitExceeded: when too many questions wait.
            Conflict: the key was used for another request.
        """
        attempt = Attempt.of(caller.scope, key, "ask_permission", request)
        now = self._clock()

        def work(tx: Tx) -> Approval:
            me = get_self(tx, caller, lock=True)
            return answer_once(tx, attempt, Approval, lambda: submit(tx, me), now=now)

        def submit(tx: Tx, me: AgentRow) -> Approval:
            require_capability(me, Capability.RELAY_PERMISSIONS)
            content = request.model_dump(mode="json", exclude={"deadline_seconds"}, exclude_none=True)
            number = self._settling.submit(
                tx,
                ApprovalKind.TOOL_PERMISSION,
                me,
                summary=f"use {request.tool}: {request.input}",
                content=content,
                now=now,
                deadline_at=now + request.deadline_seconds,
            )
            announce(tx, self._wake)
            return _get(tx, number)

        approval = await self._store.write(work)
        self._answers.note(attempt)
        _log.info("approval_submitted", agent=caller.name, approval=approval.id, kind=approval.kind)
        return approval

    async def get_own(self, caller: AgentCaller, approval_id: int, *, wait_seconds: int) -> Approval:
        """One that the caller submitted; waits for its end up to `wait_seconds`.

        Raises:
            NotFound: when the caller submitted none by this id.
        """

        def work(tx: Tx) -> Approval:
            found = tx.approvals.find(approval_id)
            if found is None or found[1] != get_self(tx, caller).id:
                raise NotFound(f"you submitted no approval #{approval_id}")
            return found[0]

        deadline = time.monotonic() + wait_seconds
        while True:
            changed = self._changed
            approval = await self._store.read(work)
            if approval.status is not ApprovalStatus.PENDING or self._is_closed:
                return approval
            with anyio.move_on_after(deadline - time.monotonic()) as waiting:
                await changed.wait()
            if waiting.cancelled_caught:
                return approval

    async def cancel(self, caller: AgentCaller, approval_id: int) -> Approval:
        """Cancel a pending one as the root agent: its own, or one that nobody submitted.

        Raises:
            Forbidden: for any other agent, and without the groups.
            NotFound: when there is none of these by this id.
            Conflict: when it is settled.
        """
        now = self._clock()

        def work(tx: Tx) -> Approval:
            me = get_self(tx, caller, lock=True)
            require_tool(me, "cancel_loose_end")
            if me.parent_id is not None:
                raise Forbidden(
                    "only the root agent may cancel an approval; nothing was changed. A schedule that waits "
                    "for its approval is withdrawn with cancel_schedule",
                    code="root_only",
                )
            require_group(me, ToolGroup.APPROVALS, "cancelling an approval")
            found = tx.approvals.find(approval_id)
            if found is None or found[1] not in {me.id, None}:
                raise NotFound(f"you have no approval #{approval_id}; nothing was changed")
            done = self._settling.settle(tx, approval_id, ApprovalStatus.CANCELLED, by=me.name, now=now)
            return done or _refuse_settled(found[0])

        return await self._store.write(work)

    async def decide(self, approval_id: int, status: ApprovalStatus, decision: Decision) -> Approval:
        """Approve or deny, as the operator.

        Raises:
            NotFound: when there is none by this id.
            Conflict: when it was settled before, also by its deadline; says how.
        """
        now = self._clock()

        def work(tx: Tx) -> tuple[Approval, bool]:
            approval = _get(tx, approval_id)
            if approval.deadline_at is not None and approval.deadline_at <= now:
                # As if the deadline had been noticed in time: no late answer counts.
                self._settling.settle(tx, approval_id, ApprovalStatus.EXPIRED, by=EXPIRED_BY, now=now)
                return _get(tx, approval_id), False
            done = self._settling.settle(tx, approval_id, status, by=OPERATOR, now=now, note=decision.note)
            return (approval, False) if done is None else (done, True)

        approval, is_done = await self._store.write(work)
        return approval if is_done else _refuse_settled(approval)

    async def get(self, approval_id: int) -> Approval:
        """One of anybody's, with exactly what was submitted.

        Raises:
            NotFound: when there is none by this id.
        """
        return await self._store.read(lambda tx: _get(tx, approval_id))

    async def get_page(self, query: ApprovalQuery) -> ApprovalPage:
        """Pending ones of all agents, or all there ever were.

        Raises:
            NotFound: when no agent has, or ever had, the name asked for.
        """

        def work(tx: Tx) -> ApprovalPage:
            require_name(tx, query.agent)
            rows = tx.approvals.list_page(
                decided=query.decided, agent=query.agent, limit=query.limit + 1, before=query.before
            )
            more = len(rows) > query.limit
            return ApprovalPage(approvals=rows[1:] if more else rows, more=more)

        return await self._store.read(work)

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class DueDeadlines:
    """Settles what nobody answered in time. A `due.Plan`."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling

    def fire(self, tx: Tx, *, now: int, limit: int) -> int:
        """Expire up to `limit`."""
        expired = tx.approvals.list_expired(now, limit=limit)
        for number in expired:
            self._settling.settle(tx, number, ApprovalStatus.EXPIRED, by=EXPIRED_BY, now=now)
        return len(expired)

    def find_next(self, tx: Tx) -> int | None:
        return tx.approvals.find_next_deadline()

    def release_held(self, tx: Tx, *, after: int) -> int:
        """Nothing is ever held."""
        del tx, after
        return 0


def _get(tx: Tx, approval_id: int) -> Approval:
    found = tx.approvals.find(approval_id)
    if found is None:
        raise NotFound(f"there is no approval #{approval_id}")
    return found[0]


def _refuse_settled(approval: Approval) -> Approval:
    """Never returns.

    Raises:
        Conflict: saying how it was settled, when, and by whom.
    """
    note = "" if approval.note is None else f" ({approval.note})"
    at = datetime.fromtimestamp(approval.decided_at or 0, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    raise Conflict(
        f"approval #{approval.id} was {approval.status.value} at {at} by "
        f"{approval.decided_by}{note}; it is settled once and for all",
        code="already_settled",
        details={"status": approval.status.value, "decided_at": approval.decided_at},
    )
