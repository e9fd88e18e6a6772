"""Notices: written in the transaction of the change, relayed to JetStream in order, each exactly once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import structlog

from services.broker.bus import NoticeBus
from services.broker.service.clock import Clock
from services.broker.store import Store, Topic, Tx
from services.broker.store.outbox import NewNotice, OutboxRow
from shared.errors import HiveError
from shared.runtime.ids import new_ulid
from shared.runtime.log import request_id
from shared.wire.notices import CloudEvent, NoticeEvent, notice_subject, notice_type

BATCH = 100
# Commits wake the relay, and news of other brokers' commits; this is for news that went missing.
POLL_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class NoticeWriter:
    """Appends notices of one hive to the outbox.

    Args:
        hive: its name.
        clock: for notices of what happens now.
        on_commit: called in the event loop once a notice is committed.
    """

    def __init__(self, hive: str, *, clock: Clock, on_commit: Callable[[], None]) -> None:
        self._hive = hive
        self._clock = clock
        self._on_commit = on_commit

    def append(
        self, tx: Tx, *, agent: str, event: NoticeEvent, data: Mapping[str, Any], at: int | None = None
    ) -> None:
        """Write a notice in the transaction of the change that it tells of.

        Args:
            tx: that transaction.
            agent: whom it is about.
            event: what happened.
            data: what docs/notices.md says of this event.
            at: when it happened, now by default.
        """
        now = self._clock()
        cloud_event = CloudEvent(
            id=new_ulid(),
            source=f"/hives/{self._hive}",
            type=notice_type(event),
            subject=agent,
            time=_format_time(now if at is None else at),
            data=dict(data),
        )
        tx.outbox.insert(
            NewNotice(
                event_id=cloud_event.id,
                subject=notice_subject(self._hive, agent, event),
                payload=cloud_event.model_dump_json(),
                created_at=now,
                request_id=request_id.get(),
            )
        )
        tx.on_commit(self._on_commit)
        tx.announce(Topic.OUTBOX)


class Relay:
    """Publishes the outbox, one notice after the other; a row goes when JetStream has acked it.

    That a row was removed is committed before the next one is published. So only the oldest row can have been
    sent before without anybody knowing what came of it: it is *in doubt* after a start and after a failure.
    For a row in doubt the stream is asked first, and told to store it only if its subject's newest notice is
    still the one that was seen. That holds however long the outage was; the server's own check for duplicates
    forgets after an hour.

    What waits at the start may be an old copy of the outbox, restored from a backup, of which anything may
    have been published since: what the stream holds is removed first.

    Of several brokers on one database one leads and publishes. Who leads may be unclear for a moment, and one
    that was frozen may wake up later: there every row is in doubt, and is looked for in the outbox once more
    between the look at the stream and the conditional publication. If it is still there then, nobody has
    finished with it before that look; if somebody published it since, the condition fails.
    """

    def __init__(self, store: Store, bus: NoticeBus) -> None:
        self._store = store
        self._bus = bus
        self._news = anyio.Event()
        self._empty = anyio.Event()
        self._in_doubt = True
        store.on_news(Topic.OUTBOX, lambda _subject: self.wake())

    def wake(self) -> None:
        """Say that something was committed to the outbox."""
        if self._empty.is_set():
            self._empty = anyio.Event()
        self._news.set()

    async def run(self) -> None:
        """Relay until cancelled, whenever this broker leads."""
        while True:
            await self._store.wait_leading()
            self._in_doubt = True
            await self._retry(self._drop_published)
            await self._lead()

    async def _lead(self) -> None:
        while self._store.leads:
            news = self._news = anyio.Event()
            rows = await self._retry(lambda: self._store.read(lambda tx: tx.outbox.list_oldest(BATCH)))
            for row in rows:
                if self._store.leads:
                    await self._relay(row)
            # Woken while reading: what was committed may have come too late for this read.
            if not rows and not news.is_set():
                self._empty.set()
                with anyio.move_on_after(POLL_SECONDS):
                    await news.wait()

    async def drain(self, seconds: float) -> None:
        """Wait until the outbox is empty, at most `seconds`, and not at all while NATS is away."""
        if not self._bus.connected or not self._store.leads:
            return
        self.wake()
        with anyio.move_on_after(seconds):
            await self._empty.wait()

    async def _drop_published(self) -> None:
        for subject in await self._store.read(lambda tx: tx.outbox.list_subjects()):
            await self._bus.wait_connected()
            stored = frozenset(await self._bus.list_ids(subject))
            await self._store.write(partial(_drop, subject=subject, stored=stored))

    async def _relay(self, row: OutboxRow) -> None:
        async def publish() -> None:
            await self._bus.wait_connected()
            await self._publish(row)

        await self._retry(publish)
        await self._retry(lambda: self._store.write(lambda tx: tx.outbox.delete(row.id)))
        _log.info("notice_published", subject=row.subject, event_id=row.event_id, caused_by=row.request_id)

    async def _publish(self, row: OutboxRow) -> None:
        after: int | None = None
        if self._in_doubt or self._store.is_shared:
            last = await self._bus.find_last(row.subject)
            if last is not None and last.event_id == row.event_id:
                self._in_doubt = False
                return
            after = 0 if last is None else last.sequence
            if self._store.is_shared and not await self._store.read(lambda tx: tx.outbox.holds(row.id)):
                return
        self._in_doubt = True
        await self._bus.publish(
            event_id=row.event_id,
            subject=row.subject,
            payload=row.payload.encode(),
            request_id=row.request_id,
            after_sequence=after,
        )
        self._in_doubt = False

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        pause = _FIRST_PAUSE_SECONDS
        told: str | None = None
        while True:
            try:
                return await attempt()
            except HiveError as exc:
                if exc.message != told:
                    _log.warning("relay_failed", code=exc.code, reason=exc.message)
                told = exc.message
            await anyio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)


def _drop(tx: Tx, *, subject: str, stored: frozenset[str]) -> None:
    """Remove the rows of a subject that the stream holds already."""
    for event_id in tx.outbox.list_event_ids(subject):
        if event_id in stored:
            tx.outbox.delete_by_event_id(event_id)
            _log.info("notice_known", subject=subject, event_id=event_id)


def _format_time(at: int) -> str:
    """RFC 3339, UTC, seconds."""
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
