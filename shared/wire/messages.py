"""Messages: what is sent, handed out and acked, between surfaces, broker and the operator's CLI."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from shared.wire.model import Body, OpaqueId, RowId, UnixSeconds, WireRequest, WireResult

MAX_RECV = 5
MAX_RESULT_BYTES = 40_000

# `to` is checked by the broker, which alone can say what is right; here only its size is bounded.
Recipient = Annotated[str, StringConstraints(min_length=1, max_length=200)]
BootId = Annotated[
    str, StringConstraints(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")
]  # a ULID: later boots sort later


class MessageState(StrEnum):
    """Where a row stands: waiting, handed out, done with, or put aside after five failed turns."""

    PENDING = "pending"
    DELIVERED = "delivered"
    ACKED = "acked"
    PARKED = "parked"


class SendRequest(WireRequest):
    """`POST messages`; goes with an `Idempotency-Key` header (1 to 64 of `[A-Za-z0-9_-]`).

    That a body is at most 64 KiB is the broker's to say, as is what `to` may be: so the operator sees who
    was refused.
    """

    to: Recipient
    body: Body
    in_reply_to: RowId | None = None
    urgent: bool = False
    turn: OpaqueId | None = None


class Sent(WireResult):
    """One stored row and how its recipient stands."""

    id: int
    to: str
    recipient_state: str = Field(description='"running", "stopped" or, for the operator, "operator"')


class SendResult(WireResult):
    """All rows of one send: one, or one an agent for `*`; every row is durable."""

    sent: list[Sent]


class RecvRequest(WireRequest):
    """`POST inbox/recv`: hand out up to `max` rows whose bodies fit in `max_bytes`.

    The first row is always handed out, whatever its size. `boot` is the ULID of the daemon's start: the first
    request of a later boot returns all delivered rows to pending before it hands out any.
    """

    max: Annotated[int, Field(ge=1, le=MAX_RECV)] = 1
    max_bytes: Annotated[int, Field(ge=1024, le=MAX_RESULT_BYTES)] = MAX_RESULT_BYTES
    boot: BootId | None = None
    turn: OpaqueId | None = None


class Message(WireResult):
    """One row. `recipient` and `sender` are agent names, `operator`, `system` or a wake label."""

    id: int
    sender: str
    recipient: str
    body: str
    sent_at: int
    in_reply_to: int | None = None
    urgent: bool = False
    hops: int = 0
    state: MessageState = MessageState.PENDING
    delivered_count: int = 0
    delivered_at: int | None = None
    acked_at: int | None = None
    failed_turns: int = 0
    parked_at: int | None = None
    origin: str | None = Field(
        default=None, description='"reminder:7", "schedule:3" or "wake" where that made it, else null'
    )


class SentMessage(Message):
    """A row as its sender sees it; to senders that are agents the body stays empty."""

    recipient_state: str = Field(
        description='"running", "stopped", "destroyed" or, for the operator, "operator"'
    )


class RecvResult(WireResult):
    """The rows handed out, urgent first, then oldest, and how many more are pending."""

    messages: list[Message]
    pending: int


class AckRequest(WireRequest):
    """`POST inbox/ack`: ack every own row with id up to and including `up_to`."""

    up_to: RowId


class AckResult(WireResult):
    """How many rows were acked, and which (the oldest 100) stayed: an urgent row overtook them unseen."""

    acked: int
    stayed: list[int]
    stayed_count: int
    acked_ids: list[int] = Field(default=[], description="the newest 1000; for removing spilled bodies")


class ReleaseRequest(WireRequest):
    """`POST inbox/release`: return own delivered rows to pending: these ids, one turn's, or (neither) all.

    Goes with an `Idempotency-Key`: a repeat that comes late must take no row back from who has it now.
    With `failed` the turn has failed: all its rows that are not acked go back and count it, also those that
    were returned before, and a row that has counted five is parked. The same turn is counted once.
    """

    ids: Annotated[list[RowId], Field(max_length=1000)] | None = None
    turn: OpaqueId | None = None
    failed: bool = False

    @model_validator(mode="after")
    def _name_the_turn(self) -> Self:
        if self.failed and self.turn is None:
            raise ValueError("`failed` needs `turn`: say which turn has failed")
        return self


class ReleaseResult(WireResult):
    """How many rows went back to pending, and the ids of those that were parked instead."""

    released: int
    parked: list[int] = []


class StatesRequest(WireRequest):
    """`POST inbox/states`: ask how own rows stand; changes nothing."""

    ids: Annotated[list[RowId], Field(max_length=1000)]


class StatesResult(WireResult):
    """The state of each row by its id; what is not the caller's own is absent."""

    states: dict[int, MessageState]


class InboxLevel(WireResult):
    """`GET inbox/level`: how many messages wait for the caller."""

    pending: int


class InboxQuery(WireRequest):
    """The operator's view of a mailbox; `before` pages backwards by id."""

    include_acked: bool = False
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    before: RowId | None = None


class MarkReadRequest(WireRequest):
    """The operator's own rows to ack: these ids, or every row up to `up_to`. Exactly one of the two."""

    ids: Annotated[list[RowId], Field(min_length=1, max_length=1000)] | None = None
    up_to: RowId | None = None


class MessagePage(WireResult):
    """Rows, newest last, and whether older ones exist."""

    messages: list[Message]
    pending: int
    more: bool = False


class SentPage(WireResult):
    """What one has sent and nobody has acked yet, newest last, and whether older ones exist."""

    messages: list[SentMessage]
    more: bool = False


class ParkedPage(WireResult):
    """Parked rows of all agents, newest last, and whether older ones exist."""

    messages: list[Message]
    more: bool = False


class StatusText(WireRequest):
    """`PUT status`: the agent's one-line status; `set_at` is when it was set, which may be before now."""

    text: Annotated[str, StringConstraints(max_length=200)]
    set_at: UnixSeconds
