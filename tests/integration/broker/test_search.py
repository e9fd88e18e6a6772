"""The operator's search: which messages it finds, on either database, and what becomes of its index."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.indexing import BATCH_ROWS, Indexing
from services.broker.service.retention import DAY_SECONDS, Retention
from services.broker.store import Store, Tx
from services.broker.store.messages import NewMessage
from shared.errors import Unavailable
from tests.integration.broker.running import Broker, Peer, running_broker

SEARCH = "/messages/search"

FOUND_BY = (
    ("deploy", "The deploy failed"),
    ("deploy", "Deployment, over night"),
    ("FAILED deploy", "the deploy has failed"),
    ("store.py", "look at services/broker/store.py"),
    ("broker", "look at services/broker/store.py"),
    ("case", "snake_case"),
    ("don't", "we don't"),
    ("ubung", "eine ÜBUNG"),
    ("Übung", "eine ubung"),
    ("cafe\u0301", "the cafés"),
    ("привет", "ПРИВЕТ"),
    ("1e5", "about 1e5 of v1.2"),
    ("完成", "昨天部署完成了"),
    ("완", "완성"),
    ("a@b.example", "mail a@b.example now"),
    ("rollback", "x" * 60_000 + " rollback"),
    ("z" * 400, "z" * 3_000),
)

HOSTILE = (
    '"',
    "''\"\"",
    "*",
    "needle*",
    "-needle",
    "NEAR(needle, 5)",
    "body: needle",
    "needle AND NOT OR",
    "^needle",
    "{needle}",
    "needle\x00",
    "🚀 needle",
    "& | ! <-> :*",
    "'needle':*A",
    "\\",
    "%_",
    "完成",
    "x" * 500,
    "각" * 500,
    " ".join("w" * 30),
)


@pytest.fixture
async def store(broker: Broker) -> AsyncIterator[Store]:
    """A store of the test's own on the broker's database."""
    store = Store(broker.settings.database)
    await store.open()
    yield store
    await store.close()


async def search(broker: Broker, query: str, **more: Any) -> list[int]:
    page = await broker.operator.get("GET", SEARCH, params={"query": query, **more})
    return [row["id"] for row in page["messages"]]


@pytest.mark.requirement("search.words")
async def test_a_message_is_found_by_its_words_and_their_beginnings(broker: Broker, ruth: Peer) -> None:
    noise = await ruth.send("iris", "nothing of the kind")
    for query, body in FOUND_BY:
        sent = await ruth.send("iris", body)
        found = await search(broker, query)
        assert sent in found, query
        assert noise not in found, query
        assert await search(broker, f"{query} elsewhere") == [], query


@pytest.mark.requirement("search.plain")
async def test_nothing_in_a_query_is_an_operator(broker: Broker, ruth: Peer) -> None:
    both = await ruth.send("iris", "needle AND near 5 body")
    alone = await ruth.send("iris", "needle")
    for query in HOSTILE:
        response = await broker.operator.ask("GET", SEARCH, params={"query": query})
        assert response.status_code in {200, 422}, (query, response.text)
        if response.status_code == 422:
            assert "has no word to look for" in response.json()["message"], query
    assert await search(broker, "-needle") == [alone, both]
    assert await search(broker, "NEAR(needle, 5)") == [both]
    assert await search(broker, "body:needle*") == [both]


@pytest.mark.requirement("search.plain")
@pytest.mark.parametrize(
    ("query", "told"), [("x" * 501, "500"), (" ".join(map(str, range(33))), "limit is 32"), ("", "query")]
)
async def test_too_much_and_nothing_are_refused(broker: Broker, query: str, told: str) -> None:
    assert told in (await broker.operator.refused(422, "GET", SEARCH, params={"query": query}))["message"]


@pytest.mark.requirement("search.filters")
async def test_newest_come_first_in_pages_and_filters_narrow(broker: Broker, ruth: Peer, iris: Peer) -> None:
    first = await ruth.send("iris", "needle 1")
    broker.clock.now += 10
    second = await iris.send("ruth", "needle 2")
    third = await broker.operator.send("iris", "needle 3")
    asked = {"query": "needle", "limit": 2}
    page = await broker.operator.get("GET", SEARCH, params=asked)
    assert ([row["id"] for row in page["messages"]], page["more"]) == ([third, second], True)
    page = await broker.operator.get("GET", SEARCH, params={**asked, "before": second})
    assert ([row["id"] for row in page["messages"]], page["more"]) == ([first], False)
    (row,) = page["messages"]
    assert (row["body"], row["snippet"], row["matches"]) == ("needle 1", "needle 1", [[0, 6]])

    assert await search(broker, "needle", sender="ruth") == [first]
    assert await search(broker, "needle", sender="operator") == [third]
    assert await search(broker, "needle", recipient="iris") == [third, first]
    assert await search(broker, "needle", recipient="operator") == []
    assert await search(broker, "needle", since=broker.clock.now) == [third, second]
    assert await search(broker, "needle", sender="iris", recipient="ruth", since=1) == [second]


@pytest.mark.requirement("search.filters")
async def test_a_name_that_nobody_has_is_told_from_one_without_such_messages(
    broker: Broker, ruth: Peer
) -> None:
    await broker.operator.get("POST", "/agents/iris/wake", {"from": "cron:nightly", "body": "needle"})
    assert len(await search(broker, "needle", sender="cron:nightly")) == 1
    assert await search(broker, "other", sender="cron:nightly") == []
    for filters in ({"sender": "irs"}, {"recipient": "irs"}):
        asked = {"query": "needle", **filters}
        refused = await broker.operator.refused(404, "GET", SEARCH, params=asked)
        assert "did you mean iris?" in refused["message"]
    await broker.operator.refused(422, "GET", SEARCH, params={"query": "x", "sender": "../x"})


@pytest.mark.requirement("search.operator-only")
async def test_only_the_operator_searches(broker: Broker, ruth: Peer) -> None:
    # In the agents' tree that place of the path is a message's id.
    await ruth.refused(422, "GET", SEARCH, params={"query": "x"})
    response = await broker.http.get(
        f"/v1/operator{SEARCH}?query=x", headers={"Authorization": f"Bearer {ruth.token}"}
    )
    assert response.status_code == 401


@pytest.mark.requirement("search.removed")
async def test_what_is_swept_leaves_the_index_in_the_same_transaction(
    broker: Broker, ruth: Peer, iris: Peer, store: Store
) -> None:
    old = await ruth.send("iris", "needle one")
    await iris.ack(old)
    broker.clock.now += 30 * DAY_SECONDS + 1
    kept = await ruth.send("iris", "needle two")
    assert await search(broker, "needle") == [kept, old]
    # Also one that was removed before it came into the index.
    unseen = await store.write(lambda tx: tx.messages.insert(_message("needle three")))
    await store.write(lambda tx: tx.inbox.ack_ids(2, [unseen], at=1))
    removed = await Retention(store, kept_days=30, clock=broker.clock).sweep()
    assert removed == 2
    assert await search(broker, "needle") == [kept]
    assert await store.read(_count_indexed) == 1


def _message(body: str) -> NewMessage:
    return NewMessage("ruth", 1, "iris", 2, body, 1)


def _count_indexed(tx: Tx) -> int:
    """How many messages the index itself knows with the word, whatever `messages` says."""
    driver: Any = tx.connection.connection.dbapi_connection
    sqlite = tx.connection.dialect.name == "sqlite"
    where = "message_words MATCH 'needle'" if sqlite else "words @@ to_tsquery('simple', 'needle')"
    rows = driver.cursor().execute(f"SELECT count(*) FROM message_words WHERE {where}").fetchall()
    return int(rows[0][0])


@pytest.mark.requirement("search.follows")
async def test_the_index_follows_by_itself_and_a_search_waits_for_it(
    broker: Broker, ruth: Peer, store: Store
) -> None:
    last = await ruth.send("iris", "needle")
    assert await search(broker, "needle") == [last]
    last = await ruth.send("iris", "needle")
    with anyio.fail_after(10):
        while (await store.read(lambda tx: tx.search.get_progress())).mark < last:
            await anyio.lowlevel.checkpoint()
    assert await store.read(_count_indexed) == 2


@pytest.mark.requirement("search.follows")
async def test_messages_of_before_the_index_come_into_it_in_small_batches(
    broker: Broker, store: Store
) -> None:
    rows = 2 * BATCH_ROWS + 1

    def fill(tx: Tx) -> list[int]:
        ids = [tx.messages.insert(_message("needle")) for _ in range(rows)]
        # One that is as long as a body can be is a batch alone.
        return [
            *ids,
            tx.messages.insert(_message("needle " + "x" * 65_000)),
            tx.messages.insert(_message("needle")),
        ]

    ids = await store.write(fill)
    before = store.writer.units
    with pytest.raises(Unavailable, match="not complete yet") as caught:
        await Indexing(store, patience_seconds=0).catch_up()
    assert caught.value.code == "index_behind"
    await Indexing(store).catch_up()
    assert store.writer.units - before <= 5
    assert await search(broker, "needle", limit=200) == ids[:-201:-1]
    assert await search(broker, "needle", limit=200, before=ids[3]) == ids[2::-1]


@pytest.mark.database("sqlite")
@pytest.mark.requirement("search.restored")
async def test_on_an_older_copy_of_the_database_the_search_is_right(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        ruth, _ = await broker.add("ruth"), await broker.add("iris", parent="ruth")
        indexed = await ruth.send("iris", "needle one")
        assert await search(broker, "needle") == [indexed]
        later = await ruth.send("iris", "needle two")
        copy = tmp_path / "copy.sqlite"
        with (
            closing(sqlite3.connect(broker.settings.layout.database)) as source,
            closing(sqlite3.connect(copy)) as to,
        ):
            source.backup(to)
        lost = await ruth.send("iris", "needle lost")
        assert await search(broker, "needle") == [lost, later, indexed]
        database = broker.settings.layout.database
    for path in (database.with_name(f"{database.name}-wal"), database.with_name(f"{database.name}-shm")):
        path.unlink(missing_ok=True)
    copy.rename(database)
    async with running_broker(tmp_path) as broker:
        assert await search(broker, "needle") == [later, indexed]
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("INSERT INTO message_words (message_words) VALUES ('integrity-check')")
