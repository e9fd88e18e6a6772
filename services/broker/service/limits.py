"""What keeps messages from flooding: full inboxes, and the breaker of loops between agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from shared.errors import InvalidInput, LimitExceeded
from shared.wire import model
from shared.wire.names import OPERATOR

HOP_WINDOW_SECONDS = 600
PAIR_WINDOW_SECONDS = 60
LIFTED_SECONDS = 600
# So much the clock of another broker on the database may be ahead without what it wrote going uncounted. What
# seems later still was written before the clock was set back.
AHEAD_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's settings; a `pair_per_minute` of 0 sets no limit."""

    max_pending: int = 1_000
    max_hops: int = 30
    pair_per_minute: int = 60


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parties, whichever way they write, and the number of the message to be."""

    key: str
    seq: int


def check_size(body: str) -> None:
    """Refuse a body that is too long.

    Raises:
        InvalidInput: with its size and the limit.
    """
    try:
        model.check_size(body)
    except ValueError as exc:
        limit = {"limit": model.MAX_BODY_BYTES}
        raise InvalidInput(f"body: {exc}", code="body_too_large", details=limit) from exc


def check_room(tx: Tx, targets: Sequence[AgentRow | None], limits: Limits) -> None:
    """Refuse when an inbox is full; None is the operator's.

    Raises:
        LimitExceeded: naming the full ones.
    """
    full = [
        OPERATOR if target is None else target.name
        for target in targets
        if tx.inbox.count_pending(None if target is None else target.id) >= limits.max_pending
    ]
    if full:
        names = ", ".join(full[:10]) + (f" and {len(full) - 10} more" if len(full) > 10 else "")
        raise LimitExceeded(
            f"the inbox of {names} is full ({limits.max_pending} messages wait); nothing was sent. Try again "
            "after some were read, or tell the operator",
            code="inbox_full",
            details={"full": full[:10], "limit": limits.max_pending},
        )


def count_hops(tx: Tx, sender: AgentRow, *, replied: int, turn: str | None, now: int) -> int:
    """The hop count of what `sender` sends now: one more than the highest of what may have caused it."""
    since, until = now - HOP_WINDOW_SECONDS, now + AHEAD_SECONDS
    handed = tx.handed.find_highest(sender.id, since=since, until=until, turn=turn)
    return 1 + max(replied, handed or 0)


def check_hops(sender: AgentRow, hops: int, limits: Limits, *, now: int) -> None:
    """Break chains of agents that answer each other for ever.

    Raises:
        LimitExceeded: above the limit, unless the operator has just written to the sender.
    """
    if hops > limits.max_hops and not _is_lifted(sender, now):
        raise LimitExceeded(
            f"this would be message {hops} of a chain in which agents answer each other, and the limit is "
            f"{limits.max_hops}; it was not sent. Stop answering: finish your work, or wait 10 minutes. A "
            "message from the operator lifts the limit",
            code="too_many_hops",
            details={"hops": hops, "limit": limits.max_hops},
        )


def claim_pair(tx: Tx, sender: AgentRow, target: AgentRow | None, limits: Limits, *, now: int) -> Pair | None:
    """The next number in what two parties exchange; None where no limit is set.

    Raises:
        LimitExceeded: when that makes too many within a minute, unless the operator has just written.
    """
    if not limits.pair_per_minute:
        return None
    ids = sorted((sender.id, 0 if target is None else target.id))
    key = f"{ids[0]}:{ids[1]}"
    # The limit holds when the message that many before this one is at least a minute old.
    count, at = tx.messages.find_pair(key, back=limits.pair_per_minute)
    pair = Pair(key, count + 1)
    if at is None or not now - PAIR_WINDOW_SECONDS < at <= now + AHEAD_SECONDS or _is_lifted(sender, now):
        return pair
    wait = max(1, at + PAIR_WINDOW_SECONDS - now)
    raise LimitExceeded(
        f"{sender.name} and {OPERATOR if target is None else target.name} have exchanged "
        f"{limits.pair_per_minute} messages within a minute, which is the limit; nothing was sent. Wait "
        f"{wait} s, and put more into one message",
        code="pair_too_fast",
        details={"limit": limits.pair_per_minute, "retry_after_seconds": wait},
    )


def _is_lifted(sender: AgentRow, now: int) -> bool:
    """Whether the operator has written a moment ago; not for longer because the clock was set back since."""
    return now < sender.limits_lifted_until <= now + LIFTED_SECONDS + AHEAD_SECONDS
