"""One thread that does all writing, with group commit: what queues up during a commit is the next batch.

Each unit of work runs in a savepoint of its own, so a failing one takes nothing else with it. A caller is
answered only after the COMMIT that holds its work.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.failures import translate
from services.broker.store.gauge import PendingGauge
from services.broker.store.prepared import run_plain
from services.broker.store.tx import Tx
from shared.errors import HiveError, Unavailable

MAX_BATCH = 256
MAX_QUEUED = 4_096

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Unit:
    run: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    value: Any = None
    error: BaseException | None = None
    hooks: list[Callable[[], None]] = field(default_factory=list)
    # So that the request id is known in the writer's thread too.
    context: Context = field(default_factory=copy_context)


class Writer:
    """Runs units of work one after the other, many to a transaction."""

    def __init__(
        self, engine: Engine, *, gauge: PendingGauge | None = None, max_queued: int = MAX_QUEUED
    ) -> None:
        self._engine = engine
        self._gauge = gauge
        self._queue: queue.Queue[_Unit | None] = queue.Queue(max_queued + 1)
        self._max_queued = max_queued
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
        if self._queue.qsize() >= self._max_queued:
            raise Unavailable("the broker is overloaded; nothing was stored. Try again in a moment")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put_nowait(_Unit(run, future, loop))
        return await future

    def close(self) -> None:
        """Finish what is queued and end the thread; blocks."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while True:
            batch, last = self._next_batch()
            if batch:
                self._do(batch)
                _answer(batch)
            if last:
                return

    def _next_batch(self) -> tuple[list[_Unit], bool]:
        """Wait for one unit, then take all that is queued; also says whether that was the last batch."""
        item = self._queue.get()
        batch: list[_Unit] = []
        while item is not None:
            batch.append(item)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _do(self, batch: list[_Unit]) -> None:
        committing = False
        try:
            with self._engine.connect() as connection, connection.begin() as transaction:
                for unit in batch:
                    _run_one(connection, unit, self._gauge)
                committing = True
                transaction.commit()
        except SQLAlchemyError as exc:
            error = translate(exc, committing=committing)
            error.__cause__ = exc
            self._fail(batch, error)
        except HiveError as exc:
            self._fail(batch, exc)
        except Exception as exc:  # noqa: BLE001 - the thread must outlive any bug, and waiters must be answered
            _log.exception("batch_crashed")
            self._fail(batch, exc)
        self.batches += 1
        self.units += len(batch)

    def _fail(self, batch: list[_Unit], error: Exception) -> None:
        _log.warning("commit_failed", units=len(batch), reason=str(error.__cause__ or error)[:300])
        if self._gauge is not None:
            self._gauge.clear()
        for unit in batch:
            if unit.error is None:
                unit.error = error
            unit.hooks = []


def _run_one(connection: Connection, unit: _Unit, gauge: PendingGauge | None) -> None:
    """Run one unit in a savepoint; only an error of the savepoint itself gets out and fails the batch."""
    run_plain(connection, "SAVEPOINT unit")
    tx = Tx(connection, gauge)
    try:
        unit.value = unit.context.run(unit.run, tx)
    except SQLAlchemyError as exc:
        unit.error = translate(exc)
        unit.error.__cause__ = exc
    except Exception as exc:  # noqa: BLE001 - whatever a unit raises belongs to its caller
        unit.error = exc
    if unit.error is None:
        run_plain(connection, "RELEASE SAVEPOINT unit")
        unit.hooks = tx.hooks
        return
    try:
        run_plain(connection, "ROLLBACK TO SAVEPOINT unit")
        run_plain(connection, "RELEASE SAVEPOINT unit")
    except SQLAlchemyError as exc:
        # On a full disk SQLite rolls back everything by itself: the whole batch fails, for the first reason.
        first = unit.error.__cause__
        if isinstance(first, SQLAlchemyError):
            raise unit.error from first
        raise translate(exc) from exc


def _answer(batch: list[_Unit]) -> None:
    """Resolve the futures in the event loop, one hop a batch."""

    def resolve() -> None:
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
