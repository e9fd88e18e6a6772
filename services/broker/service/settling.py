"""What an approval goes through, within a transaction: submitted, then settled once, and told of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from services.broker.service.system_mail import send_system_message
from services.broker.store import Topic, Tx
from services.broker.store.agents import AgentRow
from services.broker.store.approvals import NewApproval
from shared.errors import InvalidInput, LimitExceeded
from shared.prose import one_line
from shared.wire.approvals import Approval, ApprovalKind, ApprovalStatus

MAX_PENDING_OF_AGENT: Final = 50
MAX_OF_AGENT_AN_HOUR: Final = 300
MAX_CONTENT_BYTES: Final = 64 * 1024

# What a settled approval of one kind does, in the transaction that settles it.
Effect = Callable[[Tx, Approval, int], None]

_log = structlog.get_logger(__name__)


class Settling:
    """Submits and settles; `on_change` is called in the event loop after each commit."""

    def __init__(self) -> None:
        self._effects: dict[ApprovalKind, Effect] = {}
        self.on_change: Callable[[], None] = lambda: None

    def on_settled(self, kind: ApprovalKind, effect: Effect) -> None:
        """Have `effect` run with each approval of that kind that is settled; its status says how."""
        self._effects[kind] = effect

    def submit(
        self,
        tx: Tx,
        kind: ApprovalKind,
        submitter: AgentRow | None,
        *,
        summary: str,
        content: Mapping[str, Any],
        now: int,
        deadline_at: int | None = None,
    ) -> int:
        """Store a question with exactly what it is about; returns its id.

        Raises:
            LimitExceeded: when too many of the submitter's wait.
            InvalidInput: when there is too much of it.
        """
        if submitter is not None:
            _check_rate(tx, submitter, now=now)
        if (size := len(json.dumps(content, ensure_ascii=False).encode())) > MAX_CONTENT_BYTES:
            raise InvalidInput(
                f"this is {size} bytes to approve, and the limit is {MAX_CONTENT_BYTES}; nothing was asked"
            )
        number = tx.approvals.insert(
            NewApproval(
                kind=kind,
                agent_id=None if submitter is None else submitter.id,
                agent=None if submitter is None else submitter.name,
                summary=one_line(summary),
                content=content,
                created_at=now,
                deadline_at=deadline_at,
            )
        )
        tx.on_commit(self.on_change)
        tx.announce(Topic.APPROVALS, number)
        return number

    def settle(
        self,
        tx: Tx,
        approval_id: int,
        status: ApprovalStatus,
        *,
        by: str,
        now: int,
        note: str | None = None,
        tells: bool = True,
    ) -> Approval | None:
        """End a pending one, do what follows, and tell its submitter; None when it was not pending.

        It `tells` nobody where that is the submitter's own doing.
        """
        if not tx.approvals.settle(approval_id, status, at=now, by=by, note=note):
            return None
        found = tx.approvals.find(approval_id)
        assert found is not None
        approval, submitter_id = found
        effect = self._effects.get(ApprovalKind(approval.kind))
        if effect is not None:
            effect(tx, approval, now)
        if tells:
            _tell(tx, approval, submitter_id, now=now)
        tx.on_commit(self.on_change)
        tx.announce(Topic.APPROVALS, approval_id)
        _log.info(
            "approval_settled", approval=approval.id, kind=approval.kind, status=approval.status.value, by=by
        )
        return approval


def _check_rate(tx: Tx, submitter: AgentRow, *, now: int) -> None:
    """Approvals are kept for ever, and somebody has to read them: an agent may make few.

    Raises:
        LimitExceeded: saying which limit was reached.
    """
    if tx.approvals.count_pending(submitter.id) >= MAX_PENDING_OF_AGENT:
        raise LimitExceeded(
            f"{submitter.name} has {MAX_PENDING_OF_AGENT} questions that the operator has not answered, "
            "which is the limit; nothing was asked",
            code="too_many_approvals",
            details={"limit": MAX_PENDING_OF_AGENT},
        )
    at = tx.approvals.find_submitted_at(submitter.id, back=MAX_OF_AGENT_AN_HOUR)
    if at is not None and now - 3_600 < at <= now:
        wait = at + 3_600 - now
        raise LimitExceeded(
            f"{submitter.name} has asked the operator {MAX_OF_AGENT_AN_HOUR} questions within an hour, which "
            f"is the limit; nothing was asked. Wait {wait} s",
            code="approvals_too_fast",
            details={"limit": MAX_OF_AGENT_AN_HOUR, "retry_after_seconds": wait},
        )


def _tell(tx: Tx, approval: Approval, submitter_id: int | None, *, now: int) -> None:
    """`ApprovalResolved` to the submitter, else to the root agent; no inbox is too full for it."""
    to = tx.agents.find_live(submitter_id) if submitter_id is not None else tx.agents.find_root()
    body: dict[str, Any] = {
        "event": "ApprovalResolved",
        "id": approval.id,
        "kind": approval.kind,
        "status": approval.status.value,
    }
    if approval.note is not None:
        body["note"] = approval.note
    send_system_message(tx, to, body, at=now)
