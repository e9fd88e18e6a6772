"""Sends that were refused, parked or lost, for the operator's eyes: counted in memory, written once a second.

However many there are, they cost the database no more than a few, and push out nobody else's. Without bodies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
import structlog

from services.broker.service.clock import Clock
from services.broker.service.naming import require_name
from services.broker.store import Store, Tx
from services.broker.store.refusals import NewRefusals
from shared.errors import HiveError
from shared.wire.names import EVERYBODY, OPERATOR, RESERVED_AGENT_NAMES
from shared.wire.refusals import UNKNOWN_RECIPIENT, RefusalPage, RefusalQuery

PAUSE_SECONDS: Final = 1.0
KEPT_ROWS: Final = 1_000
KEPT_OF_SENDER: Final = 200
KEPT_SECONDS: Final = 7 * 24 * 3_600
# What is refused again within it is counted up in one entry.
ENTRY_SECONDS: Final = 3_600
MAX_WAITING: Final = 1_000
MAX_WAITING_OF_SENDER: Final = 100
BATCH: Final = 100
MAX_REASON: Final = 300

_NAMES = RESERVED_AGENT_NAMES | {EVERYBODY, OPERATOR}

_log = structlog.get_logger(__name__)

Kind = tuple[str, str, str]


class RefusalLog:
    """Run `run` in a task; call everything in the event loop."""

    def __init__(self, store: Store, *, clock: Clock, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._waiting: dict[Kind, NewRefusals] = {}
        self._kinds: Counter[str] = Counter()
        self._news = anyio.Event()
        self._writing = anyio.Lock()

    def note(self, error: HiveError, *, sender: str, recipient: str, size: int) -> None:
        """Count one refused send. What is the broker's own trouble is no refusal."""
        if error.http_status < 500:
            self.note_fate(error.code, error.message, sender=sender, recipient=recipient, size=size)

    def note_fate(self, code: str, reason: str, *, sender: str, recipient: str, size: int) -> None:
        """Count one send that the operator should see, for whatever reason."""
        now = self._clock()
        new = NewRefusals(sender, recipient, code, reason[:MAX_REASON], size, 1, now, now)
        is_full = len(self._waiting) >= MAX_WAITING or self._kinds[sender] >= MAX_WAITING_OF_SENDER
        if is_full and (sender, recipient, code) not in self._waiting:
            new = replace(new, recipient=UNKNOWN_RECIPIENT)
        self._add(new)
        self._news.set()

    async def run(self) -> None:
        """Write for ever, a pause after each time; what could not be stored is tried again with the next."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self.flush()
            await anyio.sleep(self._pause_seconds)

    async def flush(self) -> None:
        """Write what has been counted, in transactions of its own; what cannot be stored stays counted."""
        async with self._writing:
            while self._waiting:
                kinds = sorted(self._waiting, key=lambda kind: self._waiting[kind].last_at)
                batch = [self._take(kind) for kind in kinds[:BATCH]]
                try:
                    await self._store.write(partial(_keep, batch=batch))
                except HiveError as exc:
                    for one in batch:
                        self._add(one)
                    _log.warning("refusals_not_kept", code=exc.code, waiting=len(self._waiting))
                    return

    async def get_page(self, query: RefusalQuery) -> RefusalPage:
        """The newest refusals, those of this moment among them.

        Raises:
            NotFound: when no agent has, or ever had, the name asked for.
        """
        await self.flush()

        def work(tx: Tx) -> RefusalPage:
            require_name(tx, query.agent)
            rows = tx.refusals.list_page(party=query.agent, limit=query.limit + 1, before=query.before)
            more = len(rows) > query.limit
            return RefusalPage(refusals=rows[1:] if more else rows, more=more)

        return await self._store.read(work)

    def _take(self, kind: Kind) -> NewRefusals:
        self._kinds[kind[0]] -= 1
        if not self._kinds[kind[0]]:
            del self._kinds[kind[0]]
        return self._waiting.pop(kind)

    def _add(self, new: NewRefusals) -> None:
        kind = (new.sender, new.recipient, new.code)
        # It goes to the end: of one second, too, the last one is the newest.
        known = self._waiting.pop(kind, None)
        if known is None:
            self._kinds[new.sender] += 1
        else:
            later, earlier = (new, known) if new.last_at >= known.last_at else (known, new)
            new = replace(later, count=known.count + new.count, first_at=earlier.first_at)
        self._waiting[kind] = new


def _keep(tx: Tx, *, batch: list[NewRefusals]) -> None:
    for new in batch:
        since = new.last_at - ENTRY_SECONDS
        # Who was destroyed meanwhile was somebody.
        is_known = new.recipient in _NAMES or tx.agents.has_lived(new.recipient, since=since)
        tx.refusals.add(new if is_known else replace(new, recipient=UNKNOWN_RECIPIENT), since=since)
    for sender in {new.sender for new in batch}:
        tx.refusals.trim(keep=KEPT_OF_SENDER, sender=sender)
    tx.refusals.trim(keep=KEPT_ROWS)
