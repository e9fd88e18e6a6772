"""Wakes: messages to an agent from what is no agent, under a label that can be taken for nobody."""

from __future__ import annotations

from typing import Final

from services.broker.service.idempotency import Attempt, answer_once
from services.broker.service.intake import Intake
from services.broker.service.limits import check_room
from services.broker.service.messages import standing
from services.broker.service.naming import get_agent
from services.broker.store import Tx
from services.broker.store.messages import NewMessage
from shared.errors import InvalidInput, NotFound
from shared.wire.messages import Sent
from shared.wire.names import OPERATOR, find_reserved, fold_label
from shared.wire.wakes import WakeRequest

_OTHER: Final = "take another label"


LABEL_TAKEN: Final = "label_taken"


class WakeService:
    """Stores them."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

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
        scope = OPERATOR if agent_id is None else f"wake:{agent_id}"
        attempt = Attempt.of(scope, key, f"wake {name}", request)
        connected = self._intake.hub.list_connected()
        now = self._intake.clock()

        def work(tx: Tx) -> Sent:
            target = get_agent(tx, name)
            if agent_id not in (None, target.id):
                raise NotFound(f"the {name} of this socket was destroyed")

            def store() -> Sent:
                _check_label(tx, request.label)
                check_room(tx, [target], self._intake.limits)
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
                stored = tx.messages.insert(row)
                return Sent(id=stored, to=target.name, recipient_state=standing(target, connected))

            return answer_once(tx, attempt, Sent, store, now=now)

        # What was refused under somebody's name is not theirs: it came through that socket.
        through = f"wake:{OPERATOR if agent_id is None else name}"
        return await self._intake.take(
            attempt,
            request.body,
            work,
            sender=request.label,
            recipient=name,
            instead={LABEL_TAKEN: through},
        )


def _check_label(tx: Tx, label: str) -> None:
    """Refuse what could be taken for somebody: labels and names look alike that differ in separators alone.

    Raises:
        InvalidInput: saying for whom.
    """
    if (word := find_reserved(label)) is not None:
        raise InvalidInput(f"from: {label} is reserved, or looks like {word}; {_OTHER}", code=LABEL_TAKEN)
    taken = fold_label(label)
    for name in tx.agents.list_names():
        if fold_label(name) == taken:
            raise InvalidInput(
                f"from: {label} is the name of an agent, or looks like that of {name}; {_OTHER}",
                code=LABEL_TAKEN,
            )
