"""A server that is not there yet, goes away, comes back, or does not answer: what is said is true."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGQUIT, Signals

import anyio
import anyio.to_thread
import pytest

from services.broker.migrations import upgrade_schema
from services.broker.store import Store, Tx
from services.broker.store.engine import build_engine, parse_url
from services.broker.store.messages import NewMessage
from services.broker.store.writer import Writer
from shared.errors import OutcomeUnknown, Unavailable
from tests.integration.broker.running import Broker, Peer, running_broker
from tests.support.deaf_link import DeafLink, deaf_link
from tests.support.postgres import PostgresServer, postgres_server

pytestmark = [pytest.mark.database("postgresql"), pytest.mark.requirement("shared.outages")]


@pytest.fixture(scope="module")
def server(database_kind: str) -> Iterator[PostgresServer]:
    """A server that tests may end."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    if server.process is None or server.process.poll() is not None:
        server.start()
    name = server.create_database()
    yield server.url_of(name)
    server.drop_database(name)


async def get_ready(broker: Broker, status: int = 200, *, within: float = 10) -> None:
    """Wait until the broker says of itself that it is ready, or with 503 that it is not."""
    with anyio.fail_after(within):
        while (await broker.http.get("/readyz")).status_code != status:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_broker_waits_for_a_server_that_is_not_up_yet(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    server.stop()
    async with running_broker(tmp_path, database_url=url) as broker:
        assert (await broker.http.get("/healthz")).status_code == 200
        assert (await broker.http.get("/readyz")).status_code == 503
        error = await broker.operator.refused(
            503, "POST", "/agents", {"name": "ruth", "token_sha256": "0" * 64}
        )
        assert "not open yet; nothing was stored" in error["message"]

        await anyio.to_thread.run_sync(server.start)
        await get_ready(broker)
        ruth, _ = await broker.add("ruth"), await broker.add("iris", "ruth")
        await ruth.send("iris")


@pytest.mark.parametrize("how", [SIGINT, SIGQUIT])
async def test_a_restart_under_load_loses_nothing_that_was_answered(
    server: PostgresServer, url: str, tmp_path: Path, how: Signals
) -> None:
    answers: list[tuple[str, int, str]] = []
    stop = anyio.Event()

    async def send(ruth: Peer, number: int) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            body = f"{number}-{count}"
            answer = await ruth.ask("POST", "/messages", {"to": "iris", "body": body})
            answers.append((body, answer.status_code, answer.text))
            await anyio.sleep(0 if answer.is_success else 0.02)

    async def advance(more: int) -> None:
        """Wait for that many messages more that were stored."""
        enough = more + sum(status == 201 for _, status, _ in answers)
        with anyio.fail_after(30):
            while sum(status == 201 for _, status, _ in answers) < enough:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async with running_broker(tmp_path, database_url=url, pair_per_minute=0, max_pending=1_000_000) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(send, ruth, number)
            await advance(50)
            await anyio.to_thread.run_sync(server.restart, how)
            await advance(50)
            stop.set()
        await get_ready(broker)
        stored: list[str] = []
        while rows := (await iris.get("POST", "/inbox/recv", {"max": 5}))["messages"]:
            stored += [row["body"] for row in rows]

    assert max(Counter(stored).values()) == 1
    by_status: dict[int, set[str]] = {}
    for body, status, text in answers:
        by_status.setdefault(status, set()).add(body)
        assert status == 201 or (status == 503 and "nothing was stored" in text) or status == 504, text
    assert by_status[201] <= set(stored)
    assert not by_status.get(503, set()) & set(stored)


async def test_idle_connections_that_were_cut_are_replaced_unnoticed(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, database_url=url) as broker:
        ruth, _ = await broker.add("ruth"), await broker.add("iris")
        await ruth.get("GET", "/meta")
        for _ in range(2):
            await anyio.to_thread.run_sync(cut_all, server)
            await ruth.send("iris")
            await ruth.get("GET", "/meta")
        await get_ready(broker)


def cut_all(server: PostgresServer) -> None:
    server.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hyperhive'"
    )


async def test_a_broker_that_lost_its_server_says_so_until_it_is_back(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, database_url=url) as broker:
        ruth, _ = await broker.add("ruth"), await broker.add("iris")
        await anyio.to_thread.run_sync(server.stop)
        await get_ready(broker, 503)
        error = await ruth.refused(503, "POST", "/messages", {"to": "iris", "body": "x"})
        assert error["code"] == "unavailable"
        await anyio.to_thread.run_sync(server.start)
        await get_ready(broker)
        await ruth.send("iris")


@asynccontextmanager
async def linked_store(server: PostgresServer, url: str) -> AsyncIterator[tuple[Store, DeafLink]]:
    """A store whose connections can be cut."""
    upgrade_schema(url)
    name = url.partition("?")[0].rpartition("/")[2]
    async with deaf_link(server.port) as link:
        far = server.url_of(name, tcp=True).replace(f":{server.port}/", f":{link.port}/")
        store = Store(far)
        await store.open()
        try:
            yield store, link
        finally:
            link.deaf = False
            await store.close()


def insert(tx: Tx) -> int:
    return tx.messages.insert(NewMessage("ruth", 1, "iris", 2, "x", 1))


async def count(store: Store) -> int:
    return await store.read(lambda tx: tx.inbox.count_pending(2))


async def test_a_commit_whose_answer_was_lost_is_said_to_be_unknown(server: PostgresServer, url: str) -> None:
    async with linked_store(server, url) as (store, link):

        def work(tx: Tx) -> None:
            insert(tx)
            link.deaf = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_once_deaf, link)
            with pytest.raises(OutcomeUnknown, match="may have been stored"):
                await store.write(work)
        assert await count(store) == 1


async def test_what_breaks_before_the_commit_is_done_again(server: PostgresServer, url: str) -> None:
    async with linked_store(server, url) as (store, link):
        runs = 0

        def work(tx: Tx) -> int:
            nonlocal runs
            runs += 1
            link.deaf = runs == 1
            return insert(tx)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_once_deaf, link)
            await store.write(work)
        assert (runs, await count(store)) == (2, 1)


async def cut_once_deaf(link: DeafLink) -> None:
    with anyio.fail_after(10):
        await link.swallowed.wait()
    link.cut()
    link.deaf = False


async def test_a_writer_that_was_frozen_gives_way_and_does_its_work_again(url: str) -> None:
    """The lock of a transaction that says nothing any more is freed within seconds; nobody gets an error."""
    upgrade_schema(url)
    frozen, other = Store(url), Store(url)
    for store in (frozen, other):
        await store.open()
    holding, thawed = threading.Event(), threading.Event()
    runs = 0

    def work(tx: Tx) -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            insert(tx)
            holding.set()
            assert thawed.wait(20)
        return insert(tx)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(frozen.write, work)
        assert await anyio.to_thread.run_sync(holding.wait, 10)
        with anyio.fail_after(10):
            await other.write(insert)
        thawed.set()
    assert (runs, await count(other)) == (2, 2)
    for store in (frozen, other):
        await store.close()


async def test_a_writer_that_waits_too_long_is_told_so(url: str) -> None:
    upgrade_schema(url)
    engines = [build_engine(parse_url(url), lock_seconds=1) for _ in range(2)]
    writer, other = map(Writer, engines)
    holding, waited = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        insert(tx)
        holding.set()
        assert waited.wait(20)

    for one in (writer, other):
        one.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.submit, hold)
        assert await anyio.to_thread.run_sync(holding.wait, 10)
        with pytest.raises(Unavailable, match="another broker holds the database; nothing was stored"):
            await writer.submit(insert)
        waited.set()
    for one in (writer, other):
        await anyio.to_thread.run_sync(one.close)
    for engine in engines:
        engine.dispose()
