"""Every refused send is there for the operator to see, without its body, and floods of them cost little."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.housekeeping import Housekeeping
from services.broker.service.parking import MAX_FAILED_TURNS
from services.broker.service.refusals import (
    ENTRY_SECONDS,
    KEPT_OF_SENDER,
    KEPT_ROWS,
    KEPT_SECONDS,
    MAX_WAITING,
    RefusalLog,
)
from services.broker.store import Store
from shared.errors import LimitExceeded, Unavailable
from shared.wire.model import MAX_BODY_BYTES
from shared.wire.refusals import RefusalQuery
from tests.integration.broker.running import Broker, Peer, TurnedClock, running_broker
from tests.integration.lifecycle.driver import Driver


async def refusals(broker: Broker, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await broker.operator.get("GET", f"/refusals{query}"))["refusals"]
    return rows


def brief(rows: list[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    return [(row["sender"], row["recipient"], row["code"], row["count"]) for row in rows]


@pytest.mark.requirement("delivery.refusals-seen")
async def test_each_kind_of_refusal_is_shown_with_its_reason(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=2, max_hops=1, pair_per_minute=2) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        key = {"Idempotency-Key": "k-1"}

        async def refused(who: Peer, status: int, to: str, body: str = "x", **more: Any) -> None:
            await who.refused(status, "POST", "/messages", {"to": to, "body": body}, **more)

        await ruth.get("POST", "/messages", {"to": "iris", "body": "x"}, headers=key)
        await refused(ruth, 409, "iris", "y", headers=key)
        await iris.recv()
        await refused(iris, 429, "ruth")
        await ruth.send("iris")
        await refused(ruth, 429, "iris")
        await broker.operator.send("iris")
        await refused(broker.operator, 429, "iris", "secret words")
        await refused(ruth, 422, "iris", "é" * MAX_BODY_BYTES)
        await refused(ruth, 404, "irs")
        await refused(ruth, 403, "*")
        await broker.permit("ruth", add_recipients=["operator"])
        await refused(ruth, 403, "iris")

        rows = await refusals(broker)
        assert brief(rows) == [
            ("ruth", "iris", "key_reused", 1),
            ("iris", "ruth", "too_many_hops", 1),
            ("ruth", "iris", "pair_too_fast", 1),
            ("operator", "iris", "inbox_full", 1),
            ("ruth", "iris", "body_too_large", 1),
            ("ruth", "?", "not_found", 1),
            ("ruth", "*", "capability_missing", 1),
            ("ruth", "iris", "recipient_not_allowed", 1),
        ]
        assert "message 2 of a chain" in rows[1]["reason"]
        assert rows[4]["size"] == MAX_BODY_BYTES * 2
        assert "'irs'" in rows[5]["reason"]
        assert "secret words" not in str(rows)


async def test_the_same_again_is_counted_in_one_entry_for_an_hour(broker: Broker, ruth: Peer) -> None:
    async def refused(times: int = 1) -> None:
        for _ in range(times):
            await ruth.refused(404, "POST", "/messages", {"to": "irs", "body": "x"})

    begun = broker.clock.now
    await refused(3)
    assert brief(await refusals(broker)) == [("ruth", "?", "not_found", 3)]
    broker.clock.now += ENTRY_SECONDS - 1
    await refused()
    (entry,) = await refusals(broker)
    assert (entry["count"], entry["first_at"], entry["last_at"]) == (4, begun, broker.clock.now)
    broker.clock.now += 1
    await refused()
    assert [row["count"] for row in await refusals(broker)] == [4, 1]


@pytest.mark.requirement("delivery.refusals-bounded")
async def test_a_flood_is_one_entry_and_delays_nobody(broker: Broker, ruth: Peer) -> None:
    iris, flood = broker.agents["iris"], 300

    async def storm() -> None:
        for _ in range(flood // 10):
            await ruth.refused(404, "POST", "/messages", {"to": "irs", "body": "x"})

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(storm)
        sent = [await iris.send("operator") for _ in range(30)]
    assert len(sent) == 30
    assert brief(await refusals(broker)) == [("ruth", "?", "not_found", flood)]


class CountingStore(Store):
    """A store that counts what is written to it, and can be told to fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.writes = 0
        self.is_broken = False

    async def write(self, run: Any) -> Any:
        self.writes += 1
        if self.is_broken:
            raise Unavailable("no")
        return await super().write(run)


@pytest.fixture
async def kept(broker: Broker) -> Any:
    """A log of its own on a database that a broker has made."""
    store = CountingStore(broker.settings.database)
    await store.open()
    yield RefusalLog(store, clock=broker.clock), store, broker.clock
    await store.close()


def note(log: RefusalLog, sender: str = "ruth", to: str = "iris", code: str = "c", reason: str = "r") -> None:
    log.note(LimitExceeded(reason, code=code), sender=sender, recipient=to, size=1)


@pytest.mark.requirement("delivery.refusals-bounded")
async def test_what_comes_while_one_is_written_waits_for_the_next_write(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, store, _ = kept
    for number in range(500):
        note(log, reason=f"{number}")
    await log.flush()
    assert store.writes == 1
    (entry,) = (await log.get_page(RefusalQuery())).refusals
    assert (entry.count, entry.reason) == (500, "499")


async def test_what_cannot_be_stored_is_stored_later(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, store, clock = kept
    note(log, reason="first")
    store.is_broken = True
    await log.flush()
    clock.now += 5
    note(log, reason="second")
    store.is_broken = False
    (entry,) = (await log.get_page(RefusalQuery())).refusals
    assert (entry.count, entry.reason, entry.last_at - entry.first_at) == (2, "second", 5)


@pytest.mark.requirement("delivery.refusals-bounded")
async def test_names_that_nobody_has_are_kept_as_one(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, _, _ = kept
    for number in range(MAX_WAITING + 50):
        note(log, to=f"nobody-{number}")
    (entry,) = (await log.get_page(RefusalQuery())).refusals
    assert (entry.recipient, entry.count) == ("?", MAX_WAITING + 50)


@pytest.mark.requirement("delivery.refusals-bounded")
async def test_the_table_keeps_the_last_thousand_and_a_week(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, store, clock = kept
    for number in range(KEPT_ROWS + 20):
        note(log, f"agent-{number % 10}", code=f"c{number}")
        if number % 200 == 0:
            await log.flush()
    page = await log.get_page(RefusalQuery(limit=1000))
    assert [row.code for row in page.refusals] == [f"c{number}" for number in range(20, KEPT_ROWS + 20)]
    assert not page.more
    clock.now += KEPT_SECONDS
    housekeeping = Housekeeping(store, clock=clock)
    assert await housekeeping.sweep() == 0
    clock.now += 1
    note(log)
    await log.flush()
    assert await housekeeping.sweep() == KEPT_ROWS - 1
    assert [row.code for row in (await log.get_page(RefusalQuery())).refusals] == ["c"]


@pytest.mark.requirement("limits.refusals-fair")
async def test_the_refusals_of_one_sender_push_out_nobody_elses(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, _, _ = kept
    note(log, "iris")
    for number in range(KEPT_ROWS * 2):
        note(log, "ruth", code=f"c{number}")
        if number % 50 == 0:
            await log.flush()
    page = await log.get_page(RefusalQuery(limit=1000))
    assert Counter(row.sender for row in page.refusals) == {"iris": 1, "ruth": KEPT_OF_SENDER}
    assert page.refusals[-1].code == f"c{KEPT_ROWS * 2 - 1}"


@pytest.mark.requirement("limits.refusals-fair")
async def test_a_flood_of_names_leaves_others_theirs(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, _, _ = kept
    for number in range(MAX_WAITING * 2):
        note(log, to=f"nobody-{number}")
    note(log, "iris", to="ruth")
    rows = (await log.get_page(RefusalQuery())).refusals
    assert {(row.sender, row.recipient, row.count) for row in rows} == {
        ("ruth", "?", MAX_WAITING * 2),
        ("iris", "ruth", 1),
    }


@pytest.mark.requirement("delivery.refusals-seen", "delivery.parked")
async def test_a_message_that_was_parked_is_shown_too(broker: Broker, ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris", "poison")
    for turn in range(MAX_FAILED_TURNS):
        await iris.recv(turn=f"t{turn}")
        await iris.get("POST", "/inbox/release", {"turn": f"t{turn}", "failed": True})
    (row,) = await refusals(broker)
    assert (row["sender"], row["recipient"], row["code"], row["size"]) == ("ruth", "iris", "parked", 6)
    assert f"message #{number} was put aside: 5 turns failed on it" in row["reason"]


async def test_refusals_are_paged_and_found_by_agent(broker: Broker, ruth: Peer, iris: Peer) -> None:
    await ruth.refused(404, "POST", "/messages", {"to": "irs", "body": "x"})
    await iris.refused(403, "POST", "/messages", {"to": "*", "body": "x"})
    await iris.refused(403, "POST", "/messages", {"to": "ruth", "body": "x", "urgent": True})
    assert brief(await refusals(broker, "?agent=ruth")) == [
        ("ruth", "?", "not_found", 1),
        ("iris", "ruth", "capability_missing", 1),
    ]
    last = (await broker.operator.get("GET", "/refusals?limit=1"))["refusals"][0]
    assert (last["recipient"], len(await refusals(broker, f"?before={last['id']}"))) == ("ruth", 2)
    await broker.operator.refused(422, "GET", "/refusals?agent=NO")


@pytest.mark.requirement("delivery.refusals-seen")
async def test_what_is_refused_again_is_the_newest_and_the_last_to_be_forgotten(
    kept: tuple[RefusalLog, CountingStore, TurnedClock],
) -> None:
    log, _, clock = kept

    async def refused(*codes: str) -> None:
        clock.now += 1
        for code in codes:
            note(log, code=code)
        await log.flush()

    async def codes(query: RefusalQuery) -> list[tuple[str, int]]:
        return [(row.code, row.count) for row in (await log.get_page(query)).refusals]

    await refused("a")
    await refused("b")
    await refused("c", "a", "c")
    assert await codes(RefusalQuery()) == [("b", 1), ("a", 2), ("c", 2)]
    assert await codes(RefusalQuery(limit=1)) == [("c", 2)]
    await refused("b")
    (newest,) = (await log.get_page(RefusalQuery(limit=1))).refusals
    assert (newest.code, newest.count, newest.last_at - newest.first_at) == ("b", 2, 2)
    assert await codes(RefusalQuery(before=newest.id)) == [("a", 2), ("c", 2)]
    await refused(*(f"c{number}" for number in range(KEPT_OF_SENDER - 1)))
    assert [code for code, _ in await codes(RefusalQuery(limit=1000))][:2] == ["b", "c0"]


@pytest.mark.requirement("delivery.refusals-seen")
async def test_a_recipient_who_is_gone_by_the_time_it_is_written_keeps_their_name(
    broker: Broker, ruth: Peer, kept: tuple[RefusalLog, CountingStore, TurnedClock]
) -> None:
    log, _, clock = kept
    note(log, to="iris")
    await Driver(broker).saw("iris", "destroyed", at=clock.now)
    await log.flush()
    clock.now += ENTRY_SECONDS + 1
    note(log, to="iris", code="not_found")
    rows = (await log.get_page(RefusalQuery())).refusals
    assert [(row.recipient, row.code) for row in rows] == [("iris", "c"), ("?", "not_found")]


@pytest.mark.requirement("delivery.refusals-seen")
async def test_refusals_of_the_last_moment_survive_a_stop(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        ruth = await broker.add("ruth")
        for _ in range(5):
            await ruth.refused(404, "POST", "/messages", {"to": "irs", "body": "x"})
    async with running_broker(tmp_path) as broker:
        assert brief(await refusals(broker)) == [("ruth", "?", "not_found", 5)]


@pytest.mark.requirement("delivery.refusals-seen")
async def test_an_agent_sees_none_of_it(broker: Broker, ruth: Peer) -> None:
    await ruth.refused(401, "GET", f"{broker.url}/v1/operator/refusals")
