"""Opens the database and gives services two ways in: `write`, through the one writer, and `read`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.engine import READERS, build_engine, parse_url
from services.broker.store.failures import translate
from services.broker.store.gauge import PendingGauge
from services.broker.store.tx import Tx
from services.broker.store.writer import Writer
from shared.errors import Unavailable

T = TypeVar("T")


class Store:
    """The database of one broker. `open()` it in the event loop that will use it, `close()` it at the end."""

    def __init__(self, url: str) -> None:
        self._url = parse_url(url)
        self._engines: list[Engine] = []
        self._writer: Writer | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reading: Engine | None = None

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may write to the same database: then nothing of it may be cached."""
        return self._url.get_backend_name() != "sqlite"

    @property
    def writer(self) -> Writer:
        """The running writer, for its counters.

        Raises:
            Unavailable: when the store is not open.
        """
        if self._writer is None:
            raise Unavailable("the database is not open yet; try again")
        return self._writer

    async def open(self) -> None:
        """Take up work. The schema must be that of this version: see `migrations`."""
        writing = build_engine(self._url)
        self._reading = build_engine(self._url, read_only=True)
        self._engines = [writing, self._reading]
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._writer = Writer(writing, gauge=None if self.is_shared else PendingGauge())
        self._writer.start()

    async def close(self) -> None:
        """Finish what is queued, then disconnect."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.close)
        if self._readers is not None:
            await asyncio.to_thread(self._readers.shutdown)
            self._readers = None
        for engine in self._engines:
            engine.dispose()

    async def write(self, run: Callable[[Tx], T]) -> T:
        """Run `run` in the writer thread and answer once it is committed; it must touch the Tx alone.

        Raises:
            HiveError: what `run` raised, or why nothing could be stored.
        """
        return await self.writer.submit(run)

    async def read(self, run: Callable[[Tx], T]) -> T:
        """Run `run` over one consistent snapshot in a reader thread; it cannot write.

        Raises:
            HiveError: what `run` raised, or why the database does not answer.
        """
        if self._reading is None or self._readers is None:
            raise Unavailable("the database is not open; try again")
        return await self._in_reader(functools.partial(_read, self._reading, run))

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)


def _read(engine: Engine, run: Callable[[Tx], T]) -> T:
    try:
        with engine.connect() as connection:
            return run(Tx(connection))
    except SQLAlchemyError as exc:
        raise translate(exc) from exc
