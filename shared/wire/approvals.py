"""Approvals: questions that the operator answers once, about exactly what was submitted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from shared.wire.model import RowId, WireRequest, WireResult, check_content, check_text
from shared.wire.names import AgentName

MAX_NOTE_CHARS = 2_000
MAX_INPUT_CHARS = 32 * 1024
MAX_DEADLINE_SECONDS = 24 * 3_600
MAX_WAIT_SECONDS = 30


class ApprovalKind(StrEnum):
    """What is asked for. The values are contract."""

    SCHEDULE_PROMPT = "schedule_prompt"
    TOOL_PERMISSION = "tool_permission"


class ApprovalStatus(StrEnum):
    """How it stands; all but the first are for good. `expired` is a denial that nobody spoke."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


Note = Annotated[str, StringConstraints(max_length=MAX_NOTE_CHARS), AfterValidator(check_content)]


class AskPermission(WireRequest):
    """`POST approvals`: may a turn or child use a tool in this way? Goes with an `Idempotency-Key`.

    When nobody has answered after `deadline_seconds`, it is denied.
    """

    tool: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_content)]
    input: Annotated[
        str,
        StringConstraints(max_length=MAX_INPUT_CHARS),
        AfterValidator(check_text),
        Field(description="what the tool would be given, as text"),
    ]
    reason: Annotated[str, StringConstraints(max_length=500), AfterValidator(check_text)] | None = None
    deadline_seconds: Annotated[int, Field(ge=1, le=MAX_DEADLINE_SECONDS)] = 300


class Decision(WireRequest):
    """`POST approvals/{id}/approve` and `…/deny`; the submitter is told the note."""

    note: Note | None = None


class Approval(WireResult):
    """One question. `agent` is who submitted it, `content` what exactly was; lists leave that out."""

    id: int
    kind: str
    agent: str | None = None
    status: ApprovalStatus
    summary: str = Field(description="one line")
    content: dict[str, Any] | None = None
    created_at: int
    deadline_at: int | None = None
    decided_at: int | None = None
    decided_by: str | None = None
    note: str | None = None


class ApprovalPage(WireResult):
    """Approvals, newest last, and whether older ones exist."""

    approvals: list[Approval]
    more: bool = False


class ApprovalQuery(WireRequest):
    """Which approvals: pending ones, or `decided` ones too; `before` pages backwards by id."""

    decided: bool = False
    agent: AgentName | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    before: RowId | None = None
