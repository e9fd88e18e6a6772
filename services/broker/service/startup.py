"""Opens the database and runs what works on it. A file must be there at once; a server is waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import structlog

from services.broker.migrations import upgrade_schema
from services.broker.store import Store, hold_database
from shared.errors import Unavailable

PATIENCE_SECONDS: Final = 3.0
_FIRST_PAUSE_SECONDS: Final = 0.2
_MAX_PAUSE_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)

Run = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def working(store: Store, database: str, runs: Sequence[Run]) -> AsyncIterator[None]:
    """Have the store open and all of `runs` running in the block, on a server as soon as it answers.

    Raises:
        HiveError: why the database cannot be used; of a server that is too old or refuses us, also later.
    """
    if not store.is_shared:
        async with _opened(store, database), anyio.create_task_group() as tasks:
            for run in runs:
                tasks.start_soon(run)
            yield
            tasks.cancel_scope.cancel()
        return

    async def work() -> None:
        async with _opened(store, database), anyio.create_task_group() as tasks:
            for run in runs:
                tasks.start_soon(run)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        # Who has connected waits meanwhile; after that they hear that the broker is not ready.
        with anyio.move_on_after(PATIENCE_SECONDS):
            await store.wait_ready()
        yield
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _opened(store: Store, database: str) -> AsyncIterator[None]:
    """Keep a file to ourselves, bring the schema up to date, and have the store open in the block."""
    with hold_database(database):
        await _upgrade(store, database)
        await store.open()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await store.close()


async def _upgrade(store: Store, database: str) -> None:
    pause = _FIRST_PAUSE_SECONDS
    told: str | None = None
    while True:
        try:
            await anyio.to_thread.run_sync(upgrade_schema, database, abandon_on_cancel=True)
        except Unavailable as exc:
            if not store.is_shared:
                raise
            reason = str(exc.__cause__ or exc)[:300]
            if reason != told:
                _log.warning("database_unavailable", reason=reason)
            told = reason
        else:
            return
        await anyio.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE_SECONDS)
