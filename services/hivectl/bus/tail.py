"""Notices in the stream's order, without gaps, stored ones and new ones.

All of them are read from the stream; the live subscription only says when to look again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from services.hivectl.bus.connection import NoticeBus, ReaderLogin, StoredNotice
from shared.errors import Unavailable

# The live copy of a notice may be here before the stream has stored it, or not come at all.
STORING_SECONDS = 1.0
STORING_POLL_SECONDS = 0.05
IDLE_POLL_SECONDS = 2.0
AWAY_POLL_SECONDS = 1.0


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
    following: int | None = 1 if from_start else None
    away = False
    while True:
        try:
            async with NoticeBus(login) as bus:
                await bus.watch(subject)
                if following is None:
                    following = await bus.get_last_sequence() + 1
                away = False
                async for notice in _drain(bus, subject, following, follow=follow):
                    yield notice
                    following = notice.sequence + 1
                return
        except Unavailable as exc:
            if following is None or not follow:
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
