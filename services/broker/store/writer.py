"""One thread that does all writing, with group commit: what queues up during a commit is the next batch.

A failing unit of work takes nothing else with it: where it has written, its batch is done again, each unit in
a savepoint of its own. A caller is answered only after the COMMIT that holds its work.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.engine import BEGIN_WRITING
from services.broker.store.failures import is_passing, translate
from services.broker.store.memory import Memory
from services.broker.store.news import Item, Topic
from services.broker.store.prepared import end_plain, run_plain
from services.broker.store.tx import Tx
from services.broker.store.unit import NeedsSavepoints, Unit, run_unit
from shared.errors import HiveError, Unavailable

MAX_BATCH = 256
MAX_QUEUED = 4_096
# How many turns of the event loop a unit may wait for others at most.
MAX_TURNS = 16

T = TypeVar("T")


@dataclass(frozen=True)
class InboxWatch:
    """Who wants to know of agents' inboxes that have changed.

    Attributes:
        on_change: called in the event loop after a commit and before anybody is answered; of an inbox of
            which nobody knows how many messages wait the count is None.
        is_afar: whether other brokers must be told of an agent's; called in the writer's thread.
    """

    on_change: Callable[[Mapping[int, int | None]], None] = lambda _: None
    is_afar: Callable[[int], bool] = lambda _: False


_log = structlog.get_logger(__name__)


class Writer:
    """Runs units of work one after the other, many to a transaction.

    Args:
        engine: whose transactions write.
        take_turn: where several brokers write, says whether no other has since this one did.
        announce: tells other brokers on the database what was committed.
        inboxes: hears, in the event loop, of agents' inboxes that have changed.
        max_queued: units that may wait.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        take_turn: Callable[[Connection], bool] | None = None,
        announce: Callable[[Engine, Sequence[Item]], None] | None = None,
        inboxes: InboxWatch | None = None,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self._engine = engine
        self._memory = Memory()
        # To take one out of the pool and to put it back takes longer than some statements.
        self._kept: Tx | None = None
        # PostgreSQL ends a transaction at its first error, and sends a savepoint along with what follows it.
        self._always_apart = engine.dialect.name != "sqlite"
        self._take_turn = take_turn
        self._announce = announce
        self._inboxes = inboxes or InboxWatch()
        self._waiting: deque[Unit] = deque()
        # Wakes the thread: True for more units, False to end.
        self._calls: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._max_queued = max_queued
        self._is_calling = False
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._closing = False
        self.batches = 0
        self.units = 0

    def start(self) -> None:
        self._thread.start()

    async def submit(self, run: Callable[[Tx], T]) -> T:
        """Have `run` done and committed. If the awaiting task is cancelled, it is done all the same.

        Raises:
            Unavailable: when too much is queued, at shutdown, or when the database cannot store it.
        """
        if self._closing or not self._thread.is_alive():
            raise Unavailable("the broker is stopping; nothing was stored. Try again")
        if len(self._waiting) >= self._max_queued:
            raise Unavailable("the broker is overloaded; nothing was stored. Try again in a moment")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(Unit(run, future, loop))
        if not self._is_calling:
            self._is_calling = True
            loop.call_soon(self._call, loop, 0, MAX_TURNS)
        return await future

    def close(self) -> None:
        """Finish what is queued and end the thread; blocks."""
        if not self._closing:
            self._closing = True
            self._calls.put(False)
        if self._thread.is_alive():
            self._thread.join()

    def _call(self, loop: asyncio.AbstractEventLoop, seen: int, turns: int) -> None:
        """Wake the thread once a turn of the loop brings no more: what arrived together shares a commit."""
        waiting = len(self._waiting)
        if turns and seen < waiting < MAX_BATCH:
            loop.call_soon(self._call, loop, waiting, turns - 1)
            return
        self._is_calling = False
        self._calls.put(True)

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._calls.get()
            while batch := self._next_batch():
                self._do(batch)
                changed = _merge_inboxes(batch)
                _answer(batch, partial(self._inboxes.on_change, changed))
                self._tell(batch, changed)
        if self._kept is not None:
            self._kept.connection.close()

    def _next_batch(self) -> list[Unit]:
        batch: list[Unit] = []
        with suppress(IndexError):
            while len(batch) < MAX_BATCH:
                batch.append(self._waiting.popleft())
        return batch

    def _do(self, batch: list[Unit]) -> None:
        try:
            self._commit(batch, apart=self._always_apart)
        except HiveError as exc:
            self._fail(batch, exc)
        except Exception as exc:  # noqa: BLE001 - the thread must outlive any bug, and waiters must be answered
            _log.exception("batch_crashed")
            self._fail(batch, exc)
        self.batches += 1
        self.units += len(batch)

    def _commit(self, batch: list[Unit], *, apart: bool, may_repeat: bool = True) -> None:
        committing = False
        try:
            with self._connected() as tx:
                self._begin(tx.connection)
                if self._take_turn is not None and not self._take_turn(tx.connection):
                    self._memory.clear()
                self._run(tx, batch, apart=apart)
                if len(batch) > 1 or batch[0].error is None:
                    committing = True
                    self._end(tx.connection, "commit")
                else:
                    self._end(tx.connection, "rollback")
        except NeedsSavepoints:
            self._start_over(batch)
            self._commit(batch, apart=True, may_repeat=may_repeat)
        except SQLAlchemyError as exc:
            # Before COMMIT nothing is stored, so that it can all be done again.
            if not (may_repeat and not committing and is_passing(exc)):
                raise translate(exc, committing=committing) from exc
            _log.info("batch_repeated", units=len(batch), reason=str(exc.__cause__ or exc)[:300])
            self._start_over(batch)
            self._commit(batch, apart=apart, may_repeat=False)

    @contextmanager
    def _connected(self) -> Iterator[Tx]:
        """A connection for a batch; of a file the same one, until something goes wrong with it."""
        if self._always_apart:
            with self._engine.connect() as connection:
                yield Tx(connection, self._memory)
            return
        tx, self._kept = self._kept or Tx(self._engine.connect(), self._memory), None
        try:
            yield tx
        except BaseException:
            tx.connection.close()
            raise
        self._kept = tx

    def _begin(self, connection: Connection) -> None:
        """Begin a transaction; what fails before its end closes the connection, which undoes it.

        On a kept connection SQLAlchemy stays in the first one: its bookkeeping costs what two statements do.
        """
        if connection.in_transaction():
            run_plain(connection, BEGIN_WRITING)
        else:
            connection.begin()

    def _end(self, connection: Connection, end: Literal["commit", "rollback"]) -> None:
        if self._always_apart:
            getattr(connection, end)()
        else:
            end_plain(connection, end)

    def _run(self, tx: Tx, batch: list[Unit], *, apart: bool) -> None:
        alone = len(batch) == 1
        for unit in batch:
            self._memory.begin_part()
            run_unit(unit, tx, alone=alone, apart=apart and not alone)
            if unit.error is not None:
                self._memory.undo_part()
            elif self._memory.pending.is_touched:
                unit.inboxes = self._memory.pending.list_touched()

    def _start_over(self, batch: list[Unit]) -> None:
        self._memory.clear()
        for unit in batch:
            unit.reset()

    def _fail(self, batch: list[Unit], error: Exception) -> None:
        _log.warning("commit_failed", units=len(batch), reason=str(error.__cause__ or error)[:300])
        self._memory.clear()
        for unit in batch:
            if unit.error is None:
                unit.error = error
            unit.hooks, unit.news, unit.inboxes = [], [], {}

    def _tell(self, batch: list[Unit], inboxes: Mapping[int, int | None]) -> None:
        """Tell other brokers, apart from the commit: within it this would hold up all other commits."""
        if self._announce is None:
            return
        items = [item for unit in batch for item in unit.news]
        items += [Item(Topic.INBOXES, agent_id) for agent_id in inboxes if self._inboxes.is_afar(agent_id)]
        if items:
            try:
                self._announce(self._engine, items)
            except (HiveError, SQLAlchemyError) as exc:
                _log.warning("news_not_told", reason=str(exc.__cause__ or exc)[:300])


def _merge_inboxes(batch: list[Unit]) -> dict[int, int | None]:
    """Of inboxes that several units have changed, what the last of them left."""
    merged: dict[int, int | None] = {}
    for unit in batch:
        merged |= unit.inboxes
    return merged


def _answer(batch: list[Unit], first: Callable[[], None]) -> None:
    """Resolve the futures in the event loop, one hop a batch; before that call `first`."""

    def resolve() -> None:
        try:
            first()
        except Exception:  # noqa: BLE001 - as below
            _log.exception("commit_hook_failed")
        for unit in batch:
            for hook in unit.hooks:
                try:
                    hook()
                except Exception:  # noqa: BLE001 - the work is committed: its caller must hear so
                    _log.exception("commit_hook_failed")
            if unit.future.done():
                continue
            if unit.error is None:
                unit.future.set_result(unit.value)
            else:
                unit.future.set_exception(_own(unit.error))

    with suppress(RuntimeError):  # the loop has ended; nobody waits any more
        batch[0].loop.call_soon_threadsafe(resolve)


def _own(error: BaseException) -> BaseException:
    """A copy for each waiter of a shared error: raising one object in many tasks entangles tracebacks."""
    if not isinstance(error, HiveError):
        return error
    copy = type(error)(error.message, code=error.code, details=error.details)
    copy.__cause__ = error.__cause__
    return copy
