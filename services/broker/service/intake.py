"""What all who store messages for others have in common: limits, repeats under a key, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import structlog

from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.idempotency import AnswerMeter, Attempt
from services.broker.service.limits import Limits, check_size
from services.broker.service.refusals import RefusalLog
from services.broker.store import Store, Tx
from shared.errors import HiveError

R = TypeVar("R")

_log = structlog.get_logger(__name__)
_NOBODY_ELSE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Intake:
    """Stores messages.

    Attributes:
        store: where they go.
        hub: says which agents are connected.
        refusals: hears of every one that was refused.
        answers: hears of every answer that is kept.
        limits: the operator's.
        clock: for times and windows.
    """

    store: Store
    hub: ControlHub
    refusals: RefusalLog
    answers: AnswerMeter
    limits: Limits
    clock: Clock

    async def take(
        self,
        attempt: Attempt,
        body: str,
        work: Callable[[Tx], R],
        *,
        sender: str,
        recipient: str,
        instead: Mapping[str, str] = _NOBODY_ELSE,
    ) -> R:
        """Do `work`, which stores `body`, or have its refusal in the audit.

        Args:
            attempt: what `work` keeps its answer under.
            body: what is sent.
            work: done in one transaction.
            sender: whose refusal it would be.
            recipient: for whom it is.
            instead: whose it would be, by the codes of refusals that are somebody else's.

        Raises:
            HiveError: as `work` refuses it, or because the body is too long.
        """
        try:
            check_size(body)
            result = await self.store.write(work)
        except HiveError as exc:
            size, who = len(body.encode()), instead.get(exc.code, sender)
            # Those of a flood would push all else out of the log; the operator has them in the audit.
            _log.debug("message_refused", sender=who, code=exc.code, size=size)
            self.refusals.note(exc, sender=who, recipient=recipient, size=size)
            raise
        self.answers.note(attempt)
        return result
