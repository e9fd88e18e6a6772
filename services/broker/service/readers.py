"""Readers of notices: the broker keeps a durable consumer for each, so that it may be away and miss none."""

from __future__ import annotations

import anyio
import structlog

from services.broker.bus import NoticeBus
from services.broker.service.clock import Clock
from services.broker.store import Store, Tx
from services.broker.store.readers import ReaderRow
from shared.errors import HiveError
from shared.wire.notices import GrantReader, NoticeReader, inbox_prefix_of, reader_identity

# Consumers that somebody removed at the server come back within this time.
CHECK_SECONDS = 60.0
GRANT_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class ReaderService:
    """Grants readers, and sees to their consumers whenever NATS is there.

    A reader's credential is the server's business: `hivectl` makes it.
    """

    def __init__(self, store: Store, bus: NoticeBus, *, hive: str, clock: Clock) -> None:
        self._store = store
        self._bus = bus
        self._hive = hive
        self._clock = clock
        self._news = anyio.Event()
        bus.on_connected.append(self.wake)

    def wake(self) -> None:
        """Have the consumers looked after now."""
        self._news.set()

    async def grant(self, request: GrantReader) -> NoticeReader:
        """Add a reader; repeating it changes nothing. Not ready yet when NATS is away; it will be.

        Raises:
            HiveError: when it cannot be stored.
        """
        now = self._clock()
        await self._store.write(lambda tx: tx.readers.insert(request.name, created_at=now))
        try:
            with anyio.move_on_after(GRANT_SECONDS):
                await self._ensure(request.name)
        except HiveError as exc:
            _log.info("reader_not_ready", reader=request.name, code=exc.code, reason=exc.message)
            self.wake()
        row = await self._store.read(lambda tx: tx.readers.get(request.name))
        return self._show(row)

    async def list_readers(self) -> list[NoticeReader]:
        """All readers, the oldest first."""
        return [self._show(row) for row in await self._store.read(_list_rows)]

    async def run(self) -> None:
        """Look after consumers until cancelled: at each connection to NATS, and every minute."""
        while True:
            self._news = anyio.Event()
            try:
                if self._bus.connected:
                    for row in await self._store.read(_list_rows):
                        await self._ensure(row.name)
            except HiveError as exc:
                _log.warning("reader_not_ready", code=exc.code, reason=exc.message)
            with anyio.move_on_after(CHECK_SECONDS):
                await self._news.wait()

    async def _ensure(self, name: str) -> None:
        await self._bus.ensure_reader(reader_identity(self._hive, name))
        now = self._clock()
        await self._store.write(lambda tx: tx.readers.set_ready(name, at=now))

    def _show(self, row: ReaderRow) -> NoticeReader:
        identity = reader_identity(self._hive, row.name)
        return NoticeReader(
            name=row.name,
            durable=identity,
            inbox_prefix=inbox_prefix_of(identity),
            ready=row.ready_at is not None,
        )


def _list_rows(tx: Tx) -> list[ReaderRow]:
    return tx.readers.list_all()
