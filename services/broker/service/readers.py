"""Readers of notices: the broker keeps a durable consumer for each, so that it may be away and miss none."""

from __future__ import annotations

import anyio
import structlog

from services.broker.bus import NoticeBus
from services.broker.service.clock import Clock
from services.broker.store import Store, Tx
from services.broker.store.readers import ReaderRow
from shared.errors import Conflict, HiveError, NotFound, Unavailable
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
        row = await self._store.read(lambda tx: tx.readers.find(request.name))
        if row is None:
            raise Conflict(f"the reader {request.name} was revoked meanwhile", code="revoked")
        return self._show(row)

    async def revoke(self, name: str) -> None:
        """Forget a reader and remove its consumer. Repeating it completes what was interrupted.

        Raises:
            NotFound: when there is neither.
            Unavailable: when NATS is away; nothing was changed.
            HiveError: when NATS refuses; the consumer may still be there.
        """
        if not self._bus.connected:
            raise Unavailable("NATS is away, and the reader's consumer is there; try again when it is back")
        known = await self._store.write(lambda tx: tx.readers.delete(name))
        removed = await self._bus.remove_reader(reader_identity(self._hive, name))
        if not known and not removed:
            raise NotFound(f"there is no reader {name}; `hivectl notices readers` lists them")
        _log.info("reader_revoked", reader=name)

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
        durable = reader_identity(self._hive, name)
        await self._bus.ensure_reader(durable)
        now = self._clock()
        if not await self._store.write(lambda tx: tx.readers.set_ready(name, at=now)):
            # Revoked while we made it.
            await self._bus.remove_reader(durable)

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
