"""Opens the database and gives services two ways in: `write`, through the one writer, and `read`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.address import PgAddress
from services.broker.store.engine import READERS, build_engine, parse_url, require_postgresql
from services.broker.store.failures import translate, was_lost
from services.broker.store.news import Bulletin, Item, Listener, Topic
from services.broker.store.turns import take_turn
from services.broker.store.tx import Tx
from services.broker.store.writer import InboxWatch, Writer
from shared.errors import Unavailable

if TYPE_CHECKING:
    from services.broker.store.peers import Peers

T = TypeVar("T")


class Store:
    """The database of one broker. `open()` it in the event loop that will use it, `close()` it at the end."""

    def __init__(self, url: str) -> None:
        self._url = parse_url(url)
        self._engines: list[Engine] = []
        self._writer: Writer | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reading: Engine | None = None
        self._bulletin = Bulletin()
        self._peers: Peers | None = None
        self._changed = anyio.Event()
        self._inboxes = InboxWatch()
        if self.is_shared:
            require_postgresql()

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def is_ready(self) -> bool:
        """Whether it is open and answers."""
        return self.is_open and (self._peers is None or self._peers.is_there)

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may write to the same database: then nothing of it may be cached."""
        return self._url.get_backend_name() != "sqlite"

    @property
    def leads(self) -> bool:
        """Whether this broker is the one that does what only one may do: publish notices."""
        return not self.is_shared if self._peers is None else self._peers.leads

    @property
    def broker(self) -> int:
        """The number of this broker among those on the database, while it is open."""
        return 0 if self._peers is None else self._peers.number

    @property
    def writer(self) -> Writer:
        """The running writer, for its counters.

        Raises:
            Unavailable: when the store is not open.
        """
        if self._writer is None:
            raise Unavailable("the database is not open yet; nothing was stored. Try again")
        return self._writer

    def on_news(self, topic: Topic, listener: Listener) -> None:
        """Have `listener` called, in the event loop, when another broker announced `topic`.

        It gets the id that the news is about; None says that anything may have changed.
        """
        self._bulletin.subscribe(topic, listener)

    def watch_inboxes(
        self,
        on_change: Callable[[Mapping[int, int | None]], None],
        *,
        is_afar: Callable[[int], bool],
    ) -> None:
        """Have `on_change` called with the agents' inboxes that each commit has changed; before `open`.

        It gets how many messages wait in each, None where nobody knows, in the event loop and in the order of
        the commits. Other brokers are told `Topic.INBOXES` of those that `is_afar` says are theirs too; that
        is called in another thread.
        """
        self._inboxes = InboxWatch(on_change, is_afar)

    async def wait_ready(self) -> None:
        """Wait until it `is_ready`."""
        while not self.is_ready:
            await self._changed.wait()

    async def wait_leading(self) -> None:
        """Wait until this broker `leads`."""
        while not self.leads:
            await self._changed.wait()

    async def open(self) -> None:
        """Take up work. The schema must be that of this version: see `migrations`."""
        writing = build_engine(self._url)
        self._reading = build_engine(self._url, read_only=True)
        self._engines = [writing, self._reading]
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        if self.is_shared:
            peers = self._join_peers()
            turn = functools.partial(take_turn, broker=peers.number)
            self._writer = Writer(writing, take_turn=turn, announce=peers.announce, inboxes=self._inboxes)
        else:
            self._writer = Writer(writing, inboxes=self._inboxes)
        self._writer.start()
        self._note_change()

    async def close(self) -> None:
        """Finish what is queued, then disconnect."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.close)
        peers, self._peers = self._peers, None
        if peers is not None:
            await asyncio.to_thread(peers.close)
        if self._readers is not None:
            await asyncio.to_thread(self._readers.shutdown)
            self._readers = None
        for engine in self._engines:
            engine.dispose()

    async def write(self, run: Callable[[Tx], T]) -> T:
        """Run `run` in the writer thread and answer once it is committed; it must touch the Tx alone.

        It may be run twice, where the first transaction was undone.

        Raises:
            HiveError: what `run` raised, or why nothing could be stored.
        """
        return await self.writer.submit(run)

    async def read(self, run: Callable[[Tx], T], *, snapshot: bool = True) -> T:
        """Run `run` over one consistent snapshot in a reader thread; it cannot write.

        Args:
            run: reads.
            snapshot: no need of one, for `run` is a single prepared statement; on PostgreSQL that is cheaper.

        Raises:
            HiveError: what `run` raised, or why the database does not answer.
        """
        if self._reading is None or self._readers is None:
            raise Unavailable("the database is not open yet; try again")
        read = functools.partial(_read, self._reading, run, snapshot=snapshot)
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    def _join_peers(self) -> Peers:
        from services.broker.store.peers import Peers  # noqa: PLC0415 - needs the driver, which is an extra

        loop = asyncio.get_running_loop()

        def hear(items: Sequence[Item]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._bulletin.tell, items)

        def note_change() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._note_change)

        self._peers = Peers(PgAddress.of(self._url), on_news=hear, on_change=note_change)
        self._peers.start()
        return self._peers

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _read(engine: Engine, run: Callable[[Tx], T], *, snapshot: bool) -> T:
    # An idle connection may have been cut long before anybody noticed, and so may all of the pool.
    for left in reversed(range(READERS + 1)):
        try:
            with engine.connect() as connection, connection.begin() if snapshot else nullcontext():
                return run(Tx(connection))
        except SQLAlchemyError as exc:
            if not left or not was_lost(exc):
                raise translate(exc) from exc
    raise AssertionError
