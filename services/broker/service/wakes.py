"""Wakes: messages to an agent from what is no agent, under a label that can be taken for nobody."""

from __future__ import annotations

import structlog

from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.idempotency import AnswerMeter, Attempt, find_answer, keep_answer
from services.broker.service.limits import Limits, check_room, check_size
from services.broker.service.messages import standing
from services.broker.service.naming import get_agent
from services.broker.service.refusals import RefusalLog
from services.broker.store import Store, Tx
from services.broker.store.messages import NewMessage
from shared.errors import HiveError, InvalidInput, NotFound
from shared.wire.messages import Sent
from shared.wire.names import fold_label
from shared.wire.wakes import WakeRequest

_log = structlog.get_logger(__name__)


class WakeService:
    """Stores them.

    Args:
        store: where they go.
        hub: says which agents are connected.
        refusals: hears of every one that was refused.
        answers: hears of every answer that is kept.
        limits: the operator's.
        clock: for times.
    """

    def __init__(
        self,
        store: Store,
        hub: ControlHub,
        refusals: RefusalLog,
        *,
        answers: AnswerMeter,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self._store = store
        self._hub = hub
        self._refusals = refusals
        self._answers = answers
        self._limits = limits
        self._clock = clock

    async def wake(
        self, name: str, request: WakeRequest, *, key: str | None, agent_id: int | None = None
    ) -> Sent:
        """Put a message from a label into an agent's inbox; durable when it returns.

        Args:
            name: the agent.
            request: label and body.
            key: a repeat under it stores nothing twice.
            agent_id: which life of that name is meant, where the caller is a socket of it.

        Raises:
            NotFound: when there is no such agent, or that life is over.
            InvalidInput: for a label that is an agent's name or looks like one; for too long a body.
            LimitExceeded: when the inbox is full.
            Conflict: when the key was used for another message.
        """
        scope = "operator" if agent_id is None else f"wake:{agent_id}"
        attempt = Attempt.of(scope, key, f"wake {name}", request)
        connected = self._hub.list_connected()
        now = self._clock()

        def work(tx: Tx) -> Sent:
            target = get_agent(tx, name)
            if agent_id not in (None, target.id):
                raise NotFound(f"the {name} of this socket was destroyed")
            if (given := find_answer(tx, attempt)) is not None:
                return Sent.model_validate_json(given)
            _check_label(tx, request.label)
            check_room(tx, [target], self._limits)
            row = NewMessage(
                sender=request.label,
                sender_agent_id=None,
                recipient=target.name,
                recipient_agent_id=target.id,
                body=request.body,
                sent_at=now,
                # An agent that takes the label for its name later has not written this.
                origin="wake",
            )
            sent = Sent(
                id=tx.messages.insert(row), to=target.name, recipient_state=standing(target, connected)
            )
            keep_answer(tx, attempt, sent.model_dump_json(), now=now)
            return sent

        try:
            check_size(request.body)
            sent = await self._store.write(work)
        except HiveError as exc:
            size = len(request.body.encode())
            _log.info("wake_refused", label=request.label, code=exc.code, size=size)
            self._refusals.note(exc, sender=request.label, recipient=name, size=size)
            raise
        self._answers.note(attempt)
        return sent


def _check_label(tx: Tx, label: str) -> None:
    for name in {label, fold_label(label)}:
        if name and tx.agents.find_by_name(name) is not None:
            raise InvalidInput(
                f"from: {label} is the name of an agent, or looks like that of {name}; take another label",
                code="label_taken",
            )
