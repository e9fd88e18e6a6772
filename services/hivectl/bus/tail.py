"""Notices in the stream's order, without gaps, stored ones and new ones.

All of them are read from the stream; the live subscription only says when to look again. A stream that was
lost, or restored from a backup, counts anew: then the place is found by the ids that were told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

from services.hivectl.bus.connection import NoticeBus, ReaderLogin, StoredNotice, subject_filter
from shared.errors import Unavailable

# The live copy of a notice may be here before the stream has stored it, or not come at all.
STORING_SECONDS = 1.0
STORING_POLL_SECONDS = 0.05
IDLE_POLL_SECONDS = 2.0
AWAY_POLL_SECONDS = 1.0
# A copy of the stream that is older than so many notices begins with its first one.
_KNOWN_IDS = 10_000
_EVERYTHING = subject_filter(None)


class _Place:
    """How far a tail has come: the next sequence, and the ids of what it has told or left behind."""

    def __init__(self) -> None:
        self.following = 1
        self._known: deque[object] = deque(maxlen=_KNOWN_IDS)

    def pass_by(self, notice: StoredNotice) -> None:
        """Go on behind a notice."""
        self.following = notice.sequence + 1
        self._known.append(notice.event.get("id"))

    async def settle(self, bus: NoticeBus) -> None:
        """Where the last notice is not in its place, go behind the last known one, or to the start."""
        if not self._known:
            return
        rows = await bus.read(_EVERYTHING, first=self.following - 1)
        if rows and (rows[0].sequence + 1, rows[0].event.get("id")) == (self.following, self._known[-1]):
            return
        known, first = frozenset(self._known), 1
        self.following = 1
        while rows := await bus.read(_EVERYTHING, first=first):
            for notice in rows:
                first = notice.sequence + 1
                if notice.event.get("id") in known:
                    self.following = first


async def tail(
    login: ReaderLogin,
    *,
    subject: str,
    from_start: bool,
    follow: bool,
    on_away: Callable[[str], None],
) -> AsyncGenerator[StoredNotice]:
    """Notices in order: the stored ones with `from_start`, then new ones for ever with `follow`.

    NATS going away later is waited out (`on_away` is told once each time); nothing is missed or doubled.

    Raises:
        Unavailable: when NATS cannot be reached at the beginning.
        Misconfigured: when the credential is refused.
    """
    place: _Place | None = None
    away = False
    while True:
        try:
            async with NoticeBus(login) as bus:
                await bus.watch(subject)
                if place is None:
                    last = None if from_start else await bus.find_last()
                    place = _Place()
                    if last is not None:
                        place.pass_by(last)
                else:
                    await place.settle(bus)
                away = False
                async for notice in _drain(bus, subject, place.following, follow=follow):
                    yield notice
                    place.pass_by(notice)
                return
        except Unavailable as exc:
            if place is None or not follow:
                raise
            if not away:
                on_away(exc.message)
            away = True
        await asyncio.sleep(AWAY_POLL_SECONDS)


async def _drain(bus: NoticeBus, subject: str, first: int, *, follow: bool) -> AsyncGenerator[StoredNotice]:
    clock = asyncio.get_running_loop().time
    hurry_until = clock()
    while True:
        batch = await bus.read(subject, first=first)
        for notice in batch:
            first = notice.sequence + 1
            yield notice
        if batch:
            continue
        if not follow:
            return
        hurrying = clock() < hurry_until
        if await bus.wait_for_news(STORING_POLL_SECONDS if hurrying else IDLE_POLL_SECONDS):
            hurry_until = clock() + STORING_SECONDS
