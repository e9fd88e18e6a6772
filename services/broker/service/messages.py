"""Sending: every check, and the rows, in one transaction that is durable before the sender is answered."""

from __future__ import annotations

import structlog

from services.broker.service.addressing import Target, resolve
from services.broker.service.callers import AgentCaller, OperatorCaller, get_self
from services.broker.service.idempotency import Attempt, answer_once
from services.broker.service.intake import Intake
from services.broker.service.limits import (
    LIFTED_SECONDS,
    Limits,
    Pair,
    check_hops,
    check_room,
    claim_pair,
    count_hops,
)
from services.broker.service.rights import require_capability, require_tool
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.messages import NewMessage
from shared.errors import NotFound
from shared.permissions import Capability
from shared.runtime.log import hears_debug
from shared.wire.messages import SendRequest, SendResult, Sent
from shared.wire.names import EVERYBODY, OPERATOR

_log = structlog.get_logger(__name__)


class MessageService:
    """Stores messages, and tells their senders how they stand."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def send(
        self, caller: AgentCaller | OperatorCaller, request: SendRequest, *, key: str | None
    ) -> SendResult:
        """Store a message; for `*` one row an agent, all or none.

        Raises:
            NotFound: unknown recipient, or an `in_reply_to` that the caller neither sent nor received.
            InvalidInput: to oneself or a reserved name; too long a body.
            Forbidden: a group, capability or recipient is missing.
            LimitExceeded: full inbox, too many hops, too fast.
            Conflict: the key was used for another message.
        """
        attempt = Attempt.of(caller.scope, key, "send", request)
        connected = self._intake.hub.list_connected()
        now = self._intake.clock()

        def work(tx: Tx) -> SendResult:
            sender = get_self(tx, caller) if isinstance(caller, AgentCaller) else None

            def store() -> SendResult:
                if sender is not None:
                    require_tool(sender, "send")
                targets = resolve(tx, sender, request.to)
                rows = _compose(tx, sender, targets, request, limits=self._intake.limits, now=now)
                sent = [
                    Sent(
                        id=tx.messages.insert(row),
                        to=row.recipient,
                        recipient_state=standing(target, connected),
                    )
                    for row, target in zip(rows, targets, strict=True)
                ]
                return SendResult(sent=sent)

            # First of all: a repeat must hear that the message was stored, whatever has changed since.
            return answer_once(tx, attempt, SendResult, store, now=now)

        who = caller.name if isinstance(caller, AgentCaller) else OPERATOR
        result = await self._intake.take(attempt, request.body, work, sender=who, recipient=request.to)
        if hears_debug():
            ids = [row.id for row in result.sent][:20]
            _log.debug("message_stored", sender=who, ids=ids, size=len(request.body))
        return result


def _compose(
    tx: Tx, sender: AgentRow | None, targets: list[Target], request: SendRequest, *, limits: Limits, now: int
) -> list[NewMessage]:
    """Check what is left to check, and write out the rows, one a target."""
    replied = _check_reply(tx, sender, targets, request)
    if sender is None:
        check_room(tx, targets, limits)
        for target in targets:
            if target is not None:
                tx.agents.lift_limits(target.id, until=now + LIFTED_SECONDS)
        return [_row(None, target, request, now=now) for target in targets]
    if request.urgent:
        require_capability(sender, Capability.URGENT)
    hops = count_hops(tx, sender, replied=replied, turn=request.turn, now=now)
    check_hops(sender, hops, limits, now=now)
    check_room(tx, targets, limits)
    return [
        _row(
            sender, target, request, now=now, hops=hops, pair=claim_pair(tx, sender, target, limits, now=now)
        )
        for target in targets
    ]


def _check_reply(tx: Tx, sender: AgentRow | None, targets: list[Target], request: SendRequest) -> int:
    """The hop count of the message that `request` answers; 0 when it answers none."""
    if request.in_reply_to is None:
        return 0
    replied = tx.messages.find_replied(request.in_reply_to, party_id=None if sender is None else sender.id)
    if replied is None:
        raise NotFound(
            f"in_reply_to: you neither sent nor received a message #{request.in_reply_to}; give the "
            "id of one that you did, or leave it out",
            code="no_such_message",
        )
    for target in targets if request.to != EVERYBODY else []:
        if target is not None and replied.agent_ids.get(target.name, target.id) != target.id:
            raise NotFound(
                f"the {target.name} of message #{request.in_reply_to} was destroyed; the {target.name} of "
                "today is another agent, who knows nothing of it. Leave in_reply_to out to write to that one",
                code="recipient_destroyed",
            )
    return replied.hops


def _row(
    sender: AgentRow | None,
    target: Target,
    request: SendRequest,
    *,
    now: int,
    hops: int = 0,
    pair: Pair | None = None,
) -> NewMessage:
    return NewMessage(
        sender=OPERATOR if sender is None else sender.name,
        sender_agent_id=None if sender is None else sender.id,
        recipient=OPERATOR if target is None else target.name,
        recipient_agent_id=None if target is None else target.id,
        body=request.body,
        sent_at=now,
        in_reply_to=request.in_reply_to,
        urgent=request.urgent,
        hops=hops,
        pair=None if pair is None else pair.key,
        pair_seq=None if pair is None else pair.seq,
    )


def standing(target: Target, connected: frozenset[int]) -> str:
    """How a recipient stands, in the word that its sender is told."""
    if target is None:
        return OPERATOR
    return "running" if target.running or target.id in connected else "stopped"
