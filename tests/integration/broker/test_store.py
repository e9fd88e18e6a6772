"""The writer: group commit, units of work that do not touch each other, and failures of the database."""

from __future__ import annotations

import sqlite3
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from services.broker.migrations import upgrade_schema
from services.broker.store import Store, Tx
from services.broker.store.idempotency import GivenAnswer
from services.broker.store.messages import NewMessage
from services.broker.store.writer import Writer
from shared.errors import Conflict, NotFound, Unavailable
from shared.wire.agents import Grants

only_sqlite = pytest.mark.database("sqlite")


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    upgrade_schema(database)
    store = Store(database)
    await store.open()
    yield store
    await store.close()


def send(tx: Tx, body: str = "x") -> int:
    return tx.messages.insert(NewMessage("ruth", 1, "iris", 2, body, 1))


def add(tx: Tx, name: str = "ruth") -> int:
    return tx.agents.insert(
        name=name, parent_id=None, port_block=0, grants=Grants(groups=[], capabilities=[]), created_at=1
    )


class Gate:
    """A unit of work that holds the writer until it is opened, so that others queue up behind it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, tx: Tx) -> None:
        del tx
        self._reached.set()
        assert self._open.wait(5)

    async def wait_reached(self) -> None:
        assert await anyio.to_thread.run_sync(self._reached.wait, 5)

    def open(self) -> None:
        self._open.set()


async def count(store: Store) -> int:
    return await store.read(lambda tx: tx.inbox.count_pending(2))


async def test_concurrent_writes_share_commits(store: Store) -> None:
    ids: list[int] = []

    async def sender() -> None:
        ids.extend([await store.write(send) for _ in range(20)])

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(sender)
    assert len(set(ids)) == 64 * 20 == await count(store)
    assert store.writer.units == 64 * 20
    assert store.writer.batches < 64 * 20 / 8


async def batched(store: Store, *units: Callable[[Tx], object]) -> list[object]:
    """Run units of work in one batch; answers results and errors in their order."""
    gate = Gate()
    results: list[object] = [None] * len(units)

    async def run(index: int, unit: Callable[[Tx], object]) -> None:
        try:
            results[index] = await store.write(unit)
        except Exception as exc:  # noqa: BLE001 - looked at by the test
            results[index] = exc

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.write, gate)
        await gate.wait_reached()
        before = store.writer.batches
        for index, unit in enumerate(units):
            tasks.start_soon(run, index, unit)
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert store.writer.batches - before == 2
    return results


@pytest.mark.requirement("delivery.apart")
async def test_a_failing_unit_of_work_takes_nothing_else_with_it(store: Store) -> None:
    def bug(tx: Tx) -> None:
        send(tx, "must not stay")
        raise ZeroDivisionError

    def refusal(tx: Tx) -> None:
        send(tx, "must not stay")
        raise NotFound("nothing here")

    await store.write(add)
    first, broken, refused, doubled, last = await batched(store, send, bug, refusal, add, send)
    assert isinstance(first, int)
    assert isinstance(broken, ZeroDivisionError)
    assert isinstance(refused, NotFound)
    assert isinstance(doubled, Conflict)
    assert isinstance(last, int)
    assert await count(store) == 2


@pytest.mark.requirement("delivery.durable")
async def test_a_cancelled_caller_does_not_undo_its_write(store: Store) -> None:
    gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.write, gate)
        async with anyio.create_task_group() as inner:
            inner.start_soon(store.write, send)
            await anyio.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        gate.open()
    assert await store.write(lambda tx: tx.inbox.count_pending(2)) == 1


async def test_hooks_run_after_the_commit_and_only_then(store: Store) -> None:
    seen: list[str] = []

    def good(tx: Tx) -> None:
        tx.on_commit(lambda: seen.append("good"))

    def bad(tx: Tx) -> None:
        tx.on_commit(lambda: seen.append("bad"))
        raise NotFound("no")

    def broken_hook(tx: Tx) -> int:
        tx.on_commit(lambda: seen.remove("absent"))
        return 7

    assert (await batched(store, good, bad, broken_hook))[2] == 7
    assert seen == ["good"]


@only_sqlite
@pytest.mark.requirement("delivery.apart")
async def test_a_full_disk_fails_what_it_hits_with_a_clear_error_and_no_more(store: Store) -> None:
    def limit(tx: Tx, pages: int) -> None:
        tx.agents._connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    used = await store.read(lambda tx: tx.agents._connection.exec_driver_sql("PRAGMA page_count").scalar())
    assert isinstance(used, int)
    await store.write(partial(limit, pages=used + 2))
    results = await batched(store, *([lambda tx: send(tx, "x" * 60_000)] * 5))
    failed = [result for result in results if isinstance(result, Unavailable)]
    assert failed
    assert all("disk" in failure.message and "full" in failure.message for failure in failed)
    assert len(failed) + await count(store) == 5
    await store.write(partial(limit, pages=100_000))
    assert isinstance(await store.write(send), int)


@only_sqlite
async def test_a_database_held_by_another_process_is_a_clear_error(store: Store, tmp_path: Path) -> None:
    def hurry(tx: Tx) -> None:
        tx.agents._connection.exec_driver_sql("PRAGMA busy_timeout=50")

    await store.write(hurry)
    other = sqlite3.connect(tmp_path / "broker.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another process holds"):
        await store.write(send)
    assert await count(store) == 0, "reading goes on"
    other.close()
    await store.write(send)


async def test_an_error_of_the_database_names_no_values(store: Store) -> None:
    # Put together, so that it stands in no line of code that a traceback shows.
    secret = "-".join(("not", "for", "logs"))

    def prepared(tx: Tx) -> None:
        for _ in range(2):
            tx.idempotency.insert(secret, secret, GivenAnswer(secret, secret), now=1)

    def plain(tx: Tx) -> None:
        for _ in range(2):
            tx.tokens.insert(secret, agent_id=1, created_at=1)

    await store.write(add)
    for unit in (prepared, plain):
        with pytest.raises(Conflict) as caught:
            await store.write(unit)
        shown = "".join(traceback.format_exception(caught.value))
        assert "unique constraint" in shown.lower()
        assert secret not in shown


async def test_too_long_a_queue_is_refused(store: Store) -> None:
    engine = store.writer._engine
    writer, gate = Writer(engine, max_queued=2), Gate()
    writer.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.submit, gate)
        await gate.wait_reached()
        for _ in range(2):
            tasks.start_soon(writer.submit, send)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(Unavailable, match="overloaded"):
            await writer.submit(send)
        gate.open()
    await anyio.to_thread.run_sync(writer.close)
    with pytest.raises(Unavailable, match="stopping"):
        await writer.submit(send)


async def test_a_read_sees_one_state_and_cannot_write(store: Store) -> None:
    with pytest.raises(Unavailable, match="read-only"):
        await store.read(send)
    assert await count(store) == 0


async def test_closing_finishes_what_is_queued(store: Store) -> None:
    gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.write, gate)
        tasks.start_soon(store.write, send)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(store.close)
        gate.open()
    with pytest.raises(Unavailable):
        await store.write(send)
    await store.open()
    assert await count(store) == 1


async def test_what_fails_at_the_end_of_a_unit_of_work_fails_that_one_alone(store: Store) -> None:
    """On PostgreSQL a statement may be sent ahead: that it failed is heard when the unit is done."""
    answer = GivenAnswer("0" * 64, "{}")

    def doubled(tx: Tx) -> int:
        row = send(tx, "must not stay")
        for _ in range(2):
            tx.idempotency.insert("operator", "k", answer, now=1)
        return row

    before, failed, after = await batched(store, send, doubled, send)
    assert isinstance(failed, Conflict)
    assert {type(before), type(after)} == {int}
    with pytest.raises(Conflict):
        await store.write(doubled)
    assert await count(store) == 2
    await store.write(lambda tx: tx.idempotency.insert("operator", "k", answer, now=1))
