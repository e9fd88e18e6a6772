"""Repeats under one key get the first answer; the same key with another request is a conflict."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from services.broker.store import Tx
from services.broker.store.idempotency import GivenAnswer
from shared.errors import Conflict
from shared.wire.model import WireRequest, WireResult

M = TypeVar("M", bound=WireResult)

KEPT_SECONDS = 24 * 3600
# The newest of one caller: more than one that works makes in a day, and a bound for one that does not stop.
KEPT_ANSWERS = 100_000
SWEPT_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that may be a repeat: who asks, under which key, and what exactly."""

    scope: str
    key: str | None
    request_sha256: str

    @classmethod
    def of(cls, scope: str, key: str | None, operation: str, request: WireRequest) -> Attempt:
        text = f"{operation}\n{request.model_dump_json()}"
        return cls(scope, key, hashlib.sha256(text.encode()).hexdigest())


def find_answer(tx: Tx, attempt: Attempt) -> str | None:
    """What was answered the first time, as JSON; None when this is the first time, or has no key.

    Raises:
        Conflict: when the key was used for another request.
    """
    given = tx.idempotency.find(attempt.scope, attempt.key) if attempt.key else None
    if given is None:
        return None
    if given.request_sha256 != attempt.request_sha256:
        raise Conflict(
            "this Idempotency-Key was used for another request within the last 24 hours; take a new one",
            code="key_reused",
        )
    return given.response_json


def keep_answer(tx: Tx, attempt: Attempt, response_json: str, *, now: int) -> None:
    """Keep an answer, in the transaction of what it answers."""
    if attempt.key:
        answer = GivenAnswer(attempt.request_sha256, response_json)
        tx.idempotency.insert(attempt.scope, attempt.key, answer, now=now)


def answer_once(tx: Tx, attempt: Attempt, model: type[M], work: Callable[[], M], *, now: int) -> M:
    """What `work` answers, or what it answered when it was done under this key.

    Raises:
        Conflict: when the key was used for another request.
    """
    if (given := find_answer(tx, attempt)) is not None:
        return model.model_validate_json(given)
    answer = work()
    keep_answer(tx, attempt, answer.model_dump_json(), now=now)
    return answer


class AnswerMeter:
    """Counts what is kept for each caller, so that a flood is swept before it is large. Event loop only."""

    def __init__(self, *, swept_every: int = SWEPT_EVERY) -> None:
        self._swept_every = swept_every
        self._counts: Counter[str] = Counter()
        self._due: set[str] = set()
        self._news = anyio.Event()

    def note(self, attempt: Attempt) -> None:
        """Count one answer, if it is kept at all."""
        if attempt.key is None:
            return
        self._counts[attempt.scope] += 1
        if self._counts[attempt.scope] >= self._swept_every:
            del self._counts[attempt.scope]
            self._due.add(attempt.scope)
            self._news.set()

    async def wait_due(self) -> set[str]:
        """The callers whose answers should be swept now, as soon as there is one."""
        await self._news.wait()
        self._news = anyio.Event()
        due, self._due = self._due, set()
        return due
