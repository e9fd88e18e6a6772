"""Repeats under one key: nothing is stored or handed out twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import pytest

from services.broker.service.housekeeping import Housekeeping
from services.broker.service.idempotency import KEPT_SECONDS, AnswerMeter, Attempt
from services.broker.store import Store, Tx
from tests.integration.broker.running import Broker, Peer

KEY = {"Idempotency-Key": "k-1"}


@pytest.mark.requirement("delivery.keyed")
async def test_a_repeated_send_gets_the_first_answer_and_stores_one_row(ruth: Peer, iris: Peer) -> None:
    body = {"to": "iris", "body": "once"}
    first = await ruth.get("POST", "/messages", body, headers=KEY)
    assert await ruth.get("POST", "/messages", body, headers=KEY) == first
    assert len(await iris.recv()) == 1


@pytest.mark.requirement("delivery.keyed")
async def test_repeats_at_the_same_time_store_one_row(ruth: Peer, iris: Peer) -> None:
    answers = []

    async def send() -> None:
        answers.append(await ruth.get("POST", "/messages", {"to": "iris", "body": "once"}, headers=KEY))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(send)
    assert all(answer == answers[0] for answer in answers)
    assert len(await iris.recv()) == 1


async def test_a_repeat_hears_of_its_message_also_when_sending_was_forbidden_since(
    broker: Broker, ruth: Peer
) -> None:
    body = {"to": "iris", "body": "once"}
    first = await ruth.get("POST", "/messages", body, headers=KEY)
    await broker.permit("ruth", remove_groups=["messaging"])
    assert await ruth.get("POST", "/messages", body, headers=KEY) == first
    await ruth.refused(403, "POST", "/messages", body)


@pytest.mark.requirement("delivery.keyed")
async def test_the_same_key_with_another_request_is_a_conflict(ruth: Peer, iris: Peer) -> None:
    await ruth.get("POST", "/messages", {"to": "iris", "body": "once"}, headers=KEY)
    error = await ruth.refused(409, "POST", "/messages", {"to": "iris", "body": "twice"}, headers=KEY)
    assert error["code"] == "key_reused"
    await ruth.refused(409, "POST", "/inbox/recv", {}, headers=KEY)
    assert len(await iris.recv()) == 1


@pytest.mark.requirement("delivery.keyed")
async def test_keys_are_each_callers_own(broker: Broker, ruth: Peer, iris: Peer) -> None:
    await ruth.get("POST", "/messages", {"to": "operator", "body": "mine"}, headers=KEY)
    await iris.get("POST", "/messages", {"to": "operator", "body": "other"}, headers=KEY)
    await broker.operator.get("POST", "/messages", {"to": "ruth", "body": "third"}, headers=KEY)
    assert (await broker.operator.get("GET", "/inbox"))["pending"] == 2


async def test_a_refused_send_leaves_its_key_free(ruth: Peer, iris: Peer) -> None:
    await ruth.refused(404, "POST", "/messages", {"to": "nobody", "body": "x"}, headers=KEY)
    await ruth.get("POST", "/messages", {"to": "iris", "body": "x"}, headers=KEY)


@pytest.mark.requirement("delivery.keyed", "ack.final")
async def test_a_repeated_recv_hands_out_the_same_rows_but_acked_ones_never(ruth: Peer, iris: Peer) -> None:
    ids = [await ruth.send("iris") for _ in range(3)]
    first = await iris.get("POST", "/inbox/recv", {"max": 2}, headers=KEY)
    again = await iris.get("POST", "/inbox/recv", {"max": 2}, headers=KEY)
    assert again == first
    assert [row["delivered_count"] for row in again["messages"]] == [1, 1]
    await iris.ack(ids[0])
    left = await iris.get("POST", "/inbox/recv", {"max": 2}, headers=KEY)
    assert [row["id"] for row in left["messages"]] == [ids[1]]


@pytest.mark.requirement("delivery.keyed", "delivery.one-hand")
async def test_a_repeated_release_takes_nothing_back_from_who_has_it_now(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    await iris.recv()
    first = await iris.get("POST", "/inbox/release", {"ids": [number]}, headers=KEY)
    assert await iris.recv() == [number]
    assert await iris.get("POST", "/inbox/release", {"ids": [number]}, headers=KEY) == first
    assert await iris.recv() == []
    await iris.refused(409, "POST", "/inbox/release", {}, headers=KEY)


@pytest.mark.parametrize("key", ["", "with space", "x" * 65, "semi;colon"])
async def test_a_key_that_is_none_is_refused(standing: Broker, key: str) -> None:
    await standing.agents["ruth"].refused(
        422, "POST", "/messages", {"to": "iris", "body": "x"}, headers={"Idempotency-Key": key}
    )


async def test_answers_are_forgotten_after_a_day(
    broker: Broker, ruth: Peer, iris: Peer, store: Store
) -> None:
    await ruth.get("POST", "/messages", {"to": "iris", "body": "x"}, headers=KEY)
    broker.clock.now += KEPT_SECONDS
    housekeeping = Housekeeping(store, clock=broker.clock)
    assert await housekeeping.sweep() == 0
    broker.clock.now += 1
    assert await housekeeping.sweep() == 1
    await ruth.get("POST", "/messages", {"to": "iris", "body": "x"}, headers=KEY)
    assert len(await iris.recv()) == 2, "messages themselves are never swept by this"


@pytest.fixture
async def store(broker: Broker) -> AsyncIterator[Store]:
    """A store of the test's own on the broker's database."""
    store = Store(broker.settings.database)
    await store.open()
    yield store
    await store.close()


async def recv_under(peer: Peer, *numbers: int) -> None:
    for number in numbers:
        await peer.get("POST", "/inbox/recv", {}, headers={"Idempotency-Key": f"k-{number}"})


def is_kept(tx: Tx, *, scope: str, key: str) -> bool:
    return tx.idempotency.find(scope, key) is not None


async def list_kept(store: Store, peer: Peer) -> list[int]:
    scope = f"agent:{(await peer.get('GET', '/self'))['id']}"
    return [
        number for number in range(10) if await store.read(partial(is_kept, scope=scope, key=f"k-{number}"))
    ]


@pytest.mark.requirement("limits.answers-kept")
async def test_of_a_flood_of_answers_the_newest_stay_and_nobody_elses_go(
    broker: Broker, ruth: Peer, iris: Peer, store: Store
) -> None:
    await recv_under(ruth, 0)
    for number in range(8):
        broker.clock.now += 1
        await recv_under(iris, number)
    assert await Housekeeping(store, clock=broker.clock, kept_answers=3).sweep() == 5
    assert await list_kept(store, iris) == [5, 6, 7]
    assert await list_kept(store, ruth) == [0]


@pytest.mark.requirement("limits.answers-kept")
async def test_a_flood_of_answers_is_swept_before_the_hour_is_over(
    broker: Broker, iris: Peer, store: Store
) -> None:
    meter = AnswerMeter(swept_every=2)
    housekeeping = Housekeeping(store, clock=broker.clock, answers=meter, kept_answers=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(housekeeping.run)
        for number in range(4):
            broker.clock.now += 1
            await recv_under(iris, number)
        for _ in range(2):
            meter.note(Attempt(f"agent:{(await iris.get('GET', '/self'))['id']}", "k", ""))
        with anyio.fail_after(10):
            while await list_kept(store, iris) != [3]:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
