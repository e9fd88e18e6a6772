"""Approvals: never changed but to settle them, never deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, literal_column, or_, select, update

from services.broker.tables import approvals
from shared.wire.approvals import Approval, ApprovalKind, ApprovalStatus

_PENDING = ApprovalStatus.PENDING.value
# As a literal, so that the planner sees that the partial indexes fit.
_IS_PENDING = approvals.c.status == literal_column(f"'{_PENDING}'")


@dataclass(frozen=True, slots=True)
class NewApproval:
    """What was submitted; without an agent, by nobody in particular."""

    kind: ApprovalKind
    agent_id: int | None
    agent: str | None
    summary: str
    content: Mapping[str, Any]
    created_at: int
    deadline_at: int | None = None


class ApprovalRows:
    """Reads, adds and settles approvals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, new: NewApproval) -> int:
        """Store a pending one; returns its id."""
        values = {
            "kind": new.kind.value,
            "agent_id": new.agent_id,
            "agent": new.agent,
            "summary": new.summary,
            "content": json.dumps(new.content),
            "status": _PENDING,
            "created_at": new.created_at,
            "deadline_at": new.deadline_at,
        }
        key = self._connection.execute(insert(approvals), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def find(self, approval_id: int) -> tuple[Approval, int | None] | None:
        """One of anybody's, with the id of its submitter."""
        row = self._connection.execute(select(approvals).where(approvals.c.id == approval_id)).first()
        return None if row is None else (_decode(row), row.agent_id)

    def settle(
        self, approval_id: int, status: ApprovalStatus, *, at: int, by: str, note: str | None = None
    ) -> bool:
        """End a pending one; False when it is not pending."""
        done = self._connection.execute(
            update(approvals)
            .where(approvals.c.id == approval_id, _IS_PENDING)
            .values(status=status.value, decided_at=at, decided_by=by, note=note)
        )
        return done.rowcount == 1

    def count_pending(self, agent_id: int) -> int:
        query = (
            select(func.count()).select_from(approvals).where(approvals.c.agent_id == agent_id, _IS_PENDING)
        )
        return self._connection.scalar(query) or 0

    def find_submitted_at(self, agent_id: int, *, back: int) -> int | None:
        """When the agent submitted the last but `back - 1`, whatever became of it."""
        own = select(approvals.c.created_at).where(approvals.c.agent_id == agent_id)
        found: int | None = self._connection.scalar(
            own.order_by(approvals.c.id.desc()).offset(back - 1).limit(1)
        )
        return found

    def list_pending_of(self, agent_id: int, *, unowned: bool, limit: int) -> list[Approval]:
        """The agent's own pending ones, oldest first; with `unowned` also those that nobody submitted."""
        owned = approvals.c.agent_id == agent_id
        if unowned:
            owned = or_(owned, approvals.c.agent_id.is_(None))
        query = select(approvals).where(owned, _IS_PENDING).order_by(approvals.c.id).limit(limit)
        return [_decode(row, whole=False) for row in self._connection.execute(query)]

    def list_page(
        self, *, decided: bool, agent: str | None, limit: int, before: int | None
    ) -> list[Approval]:
        """The newest `limit` older than `before`, oldest first, without their contents."""
        query = select(approvals).order_by(approvals.c.id.desc()).limit(limit)
        if not decided:
            query = query.where(_IS_PENDING)
        if agent is not None:
            query = query.where(approvals.c.agent == agent)
        if before is not None:
            query = query.where(approvals.c.id < before)
        return [_decode(row, whole=False) for row in self._connection.execute(query)][::-1]

    def list_expired(self, now: int, *, limit: int) -> list[int]:
        """Pending ones whose deadline has passed."""
        query = select(approvals.c.id).where(_IS_PENDING, approvals.c.deadline_at <= now)
        return list(self._connection.scalars(query.order_by(approvals.c.deadline_at).limit(limit)))

    def find_next_deadline(self) -> int | None:
        """When the next pending one expires."""
        query = select(func.min(approvals.c.deadline_at)).where(_IS_PENDING)
        found: int | None = self._connection.scalar(query)
        return found

    def cancel_all(self, agent_id: int, *, at: int, by: str, note: str) -> None:
        """Cancel what an agent has submitted that is no more."""
        self._connection.execute(
            update(approvals)
            .where(approvals.c.agent_id == agent_id, _IS_PENDING)
            .values(status=ApprovalStatus.CANCELLED.value, decided_at=at, decided_by=by, note=note)
        )


def _decode(row: Row[Any], *, whole: bool = True) -> Approval:
    return Approval(
        id=row.id,
        kind=row.kind,
        agent=row.agent,
        status=ApprovalStatus(row.status),
        summary=row.summary,
        content=json.loads(row.content) if whole else None,
        created_at=row.created_at,
        deadline_at=row.deadline_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        note=row.note,
    )
