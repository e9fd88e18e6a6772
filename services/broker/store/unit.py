"""A unit of work: a function over a `Tx`, who waits for it, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.failures import is_passing, translate
from services.broker.store.news import Item
from services.broker.store.prepared import run_plain, run_plain_ahead
from services.broker.store.tx import Tx


@dataclass(slots=True)
class Unit:
    """One caller's work in a batch."""

    run: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    value: Any = None
    error: BaseException | None = None
    hooks: list[Callable[[], None]] = field(default_factory=list)
    news: list[Item] = field(default_factory=list)
    # Agents' inboxes that it has changed, each with how many messages wait now, if that is known.
    inboxes: dict[int, int | None] = field(default_factory=dict)
    # So that the request id is known in the writer's thread too.
    context: Context = field(default_factory=copy_context)

    def reset(self) -> None:
        """Forget what came of it, to be run again."""
        self.value, self.error, self.hooks, self.news, self.inboxes = None, None, [], [], {}


class NeedsSavepoints(Exception):
    """A unit has failed after it had written, and it has no savepoint to go back to."""


def run_unit(unit: Unit, tx: Tx, *, alone: bool, apart: bool) -> None:
    """Run one unit: `alone` in its transaction, `apart` in a savepoint, or (neither) just among others.

    What gets out fails the batch: an error of the savepoint itself, or one after which all can be done again.

    Raises:
        NeedsSavepoints: it failed among others, and what it wrote is still there.
    """
    connection = tx.connection
    if apart:
        run_plain_ahead(connection, "SAVEPOINT unit")
    changes = 0 if alone or apart else _count_changes(connection)
    tx.begin_part()
    try:
        unit.value = unit.context.run(unit.run, tx)
    except SQLAlchemyError as exc:
        if is_passing(exc):
            raise
        unit.error = translate(exc)
        unit.error.__cause__ = exc
    except Exception as exc:  # noqa: BLE001 - whatever a unit raises belongs to its caller
        unit.error = exc
    if apart:
        _end_savepoint(connection, unit)
    elif unit.error is not None and not alone:
        _check_unchanged(connection, unit.error, changes)
    if unit.error is None:
        unit.hooks, unit.news = tx.hooks, tx.news


def _count_changes(connection: Connection) -> int:
    driver: Any = connection.connection.dbapi_connection
    return int(driver.total_changes)


def _check_unchanged(connection: Connection, error: BaseException, changes: int) -> None:
    driver: Any = connection.connection.dbapi_connection
    if not driver.in_transaction:
        # On a full disk SQLite rolls back everything by itself: the whole batch fails, for this reason.
        raise error
    if driver.total_changes != changes:
        raise NeedsSavepoints


def _end_savepoint(connection: Connection, unit: Unit) -> None:
    if unit.error is None:
        try:
            # With its answer comes that of what the unit sent ahead.
            run_plain(connection, "RELEASE SAVEPOINT unit")
        except SQLAlchemyError as exc:
            if is_passing(exc):
                raise
            unit.error = translate(exc)
            unit.error.__cause__ = exc
        else:
            return
    try:
        run_plain_ahead(connection, "ROLLBACK TO SAVEPOINT unit")
        run_plain(connection, "RELEASE SAVEPOINT unit")
    except SQLAlchemyError as exc:
        # On a full disk SQLite rolls back everything by itself: the whole batch fails, for the first reason.
        first = unit.error.__cause__
        if isinstance(first, SQLAlchemyError):
            raise unit.error from first
        raise translate(exc) from exc
