"""Reminders: set for a time that can be, due once, whatever the clock does and however many are due."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.due import BATCH_ROWS, HOLD_SECONDS
from services.broker.service.times import MAX_AHEAD_SECONDS
from tests.integration.broker.running import Broker, Peer, TurnedClock, running_broker

SPILL = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def remind(agent: Peer, body: str = "look", **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = await agent.get("POST", "/reminders", {"body": body, **more})
    return result


async def pending(agent: Peer) -> list[int]:
    return [row["id"] for row in (await agent.get("GET", "/reminders"))["reminders"]]


async def become(expected: object, ask: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Wait until `ask` answers with `expected`; the broker looks at its clock four times a second."""
    with anyio.fail_after(10):
        while (found := await ask()) != expected:
            assert found is not None
            await anyio.sleep(0.02)


async def inbox(agent: Peer) -> list[dict[str, Any]]:
    """All rows that the agent can take."""
    rows: list[dict[str, Any]] = []
    while taken := (await agent.get("POST", "/inbox/recv", {"max": 5}))["messages"]:
        rows += taken
    return rows


@pytest.mark.requirement("remind.due")
async def test_a_reminder_comes_when_it_is_due_from_the_agent_itself(broker: Broker, iris: Peer) -> None:
    set_ = await remind(iris, "look again", delay_seconds=60)
    assert set_["due_at"] == broker.clock.now + 60
    broker.clock.now += 59
    await remind(iris, "later", at_unix_timestamp=broker.clock.now + 60)
    assert await iris.recv() == []

    broker.clock.now += 1
    await become(1, lambda: count_pending(broker, "iris"))
    (row,) = await inbox(iris)
    assert (row["sender"], row["recipient"], row["body"]) == ("iris", "iris", "look again")
    assert row["origin"] == f"reminder:{set_['id']}"
    assert [one["body"] for one in (await iris.get("GET", "/reminders"))["reminders"]] == ["later"]


async def count_pending(broker: Broker, name: str) -> int:
    return int((await broker.operator.get("GET", f"/agents/{name}"))["pending"])


@pytest.mark.requirement("remind.times")
@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({}, "exactly one of"),
        ({"delay_seconds": 5, "at_unix_timestamp": 1_900_000_000}, "exactly one of"),
        ({"delay_seconds": 0}, "at least 1"),
        ({"delay_seconds": -1}, "at least 1"),
        ({"delay_seconds": 1.5}, "delay_seconds"),
        ({"delay_seconds": "5"}, "delay_seconds"),
        ({"delay_seconds": True}, "delay_seconds"),
        ({"delay_seconds": MAX_AHEAD_SECONDS + 1}, "a hundred years"),
        ({"delay_seconds": 10**30}, "delay_seconds"),
        ({"at_unix_timestamp": 1_800_000_000}, "it is 1800000000 now"),
        ({"at_unix_timestamp": -5}, "past"),
        ({"at_unix_timestamp": 1_800_000_100_000}, "not milliseconds"),
        ({"at_unix_timestamp": 1_800_000_100.25}, "at_unix_timestamp"),
    ],
)
async def test_a_time_that_cannot_be_is_refused_with_what_is_right(
    standing: Broker, times: dict[str, Any], said: str
) -> None:
    iris = standing.agents["iris"]
    error = await iris.refused(422, "POST", "/reminders", {"body": "look", **times})
    assert said in error["message"]
    assert await pending(iris) == []


@pytest.mark.requirement("remind.times")
async def test_the_farthest_time_is_a_hundred_years_ahead(broker: Broker, iris: Peer) -> None:
    assert (await remind(iris, delay_seconds=MAX_AHEAD_SECONDS))["id"]


@pytest.mark.requirement("remind.limits")
async def test_one_more_than_the_limit_is_refused_until_one_is_gone(broker: Broker, iris: Peer) -> None:
    for _ in range(50):
        number = (await remind(iris, delay_seconds=1_000))["id"]
    error = await iris.refused(429, "POST", "/reminders", {"body": "x", "delay_seconds": 5})
    assert error["code"] == "too_many_reminders"
    await remind(broker.agents["ruth"], delay_seconds=1_000)
    await iris.get("DELETE", f"/reminders/{number}")
    await remind(iris, delay_seconds=1_000)


@pytest.mark.requirement("remind.limits")
async def test_a_long_text_is_refused_for_it_belongs_into_a_file(broker: Broker, iris: Peer) -> None:
    await remind(iris, "x" * 4_096, delay_seconds=1_000)
    error = await iris.refused(422, "POST", "/reminders", {"body": "x" * 4_097, "delay_seconds": 5})
    assert "4097 bytes" in error["message"]


@pytest.mark.requirement("remind.keyed")
async def test_a_repeat_under_its_key_sets_nothing_twice(broker: Broker, iris: Peer) -> None:
    body = {"body": "once", "delay_seconds": 60}
    key = {"Idempotency-Key": "one"}
    first = await iris.get("POST", "/reminders", body, headers=key)
    broker.clock.now += 10
    assert await iris.get("POST", "/reminders", body, headers=key) == first
    assert await pending(iris) == [first["id"]]
    await iris.refused(409, "POST", "/reminders", {**body, "body": "other"}, headers=key)


@pytest.mark.requirement("planning.broker-enforces")
async def test_without_the_group_nothing_is_set_listed_or_cancelled(broker: Broker, iris: Peer) -> None:
    number = (await remind(iris, delay_seconds=60))["id"]
    await broker.permit("iris", remove_groups=["inbox"])
    for method, path, body in (
        ("POST", "/reminders", {"body": "x", "delay_seconds": 5}),
        ("GET", "/reminders", None),
        ("DELETE", f"/reminders/{number}", None),
    ):
        assert "`inbox`" in (await iris.refused(403, method, path, body))["message"]
    broker.clock.now += 60
    await become(1, lambda: count_pending(broker, "iris"))


@pytest.mark.requirement("loose-ends.own-only")
async def test_anothers_reminder_is_neither_shown_nor_cancelled(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    number = (await remind(iris, delay_seconds=60))["id"]
    assert await pending(ruth) == []
    foreign = await ruth.refused(404, "DELETE", f"/reminders/{number}")
    absent = await ruth.refused(404, "DELETE", "/reminders/999")
    assert foreign["message"].replace(str(number), "999") == absent["message"]
    assert "nothing was changed" in foreign["message"]
    assert await pending(iris) == [number]
    assert (await iris.get("DELETE", f"/reminders/{number}"))["body"] == "look"
    assert await pending(iris) == []


@pytest.mark.requirement("remind.clock")
async def test_a_clock_that_jumps_fires_all_that_is_due_and_nothing_twice(broker: Broker, iris: Peer) -> None:
    for delay in (10, 100_000, 10_000_000):
        await remind(iris, f"in {delay}", delay_seconds=delay)
    broker.clock.now += 200_000
    await become(2, lambda: count_pending(broker, "iris"))
    broker.clock.now -= 200_000
    await remind(iris, "a moment later", delay_seconds=5)
    broker.clock.now += 5
    await become(3, lambda: count_pending(broker, "iris"))
    assert [row["body"] for row in await inbox(iris)] == ["in 10", "in 100000", "a moment later"]


@pytest.mark.requirement("remind.full-inbox")
async def test_a_reminder_for_a_full_inbox_waits_and_comes_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris", parent="ruth")
        await ruth.send("iris", "first")
        await remind(iris, "held", delay_seconds=1)
        await remind(ruth, "not held", delay_seconds=1)
        broker.clock.now += 10_000
        await become(1, lambda: count_pending(broker, "ruth"))
        await become([True], lambda: held(broker))
        assert [row["body"] for row in await inbox(iris)] == ["first"]

        # Set back: it is tried at once and not when the clock comes to where it was.
        broker.clock.now -= 5_000
        await become(1, lambda: count_pending(broker, "iris"))
        assert [row["body"] for row in await inbox(iris)] == ["held"]
        broker.clock.now += 5_000 + HOLD_SECONDS
        assert await inbox(iris) == []


async def held(broker: Broker) -> list[bool]:
    return [row["held"] for row in (await broker.operator.get("GET", "/reminders"))["reminders"]]


@pytest.mark.requirement("remind.restart")
async def test_what_fell_due_while_the_broker_was_away_comes_once_in_order(
    tmp_path: Path, database: str
) -> None:
    settings, clock = {"database_url": database}, TurnedClock()
    async with running_broker(tmp_path, clock, **settings) as broker:
        iris = await broker.add("iris")
        await remind(iris, "second", delay_seconds=20)
        await remind(iris, "first", delay_seconds=10)
    clock.now += 1_000
    for expected in (["first", "second"], []):
        async with running_broker(tmp_path, clock, **settings) as broker:
            peer = Peer(broker.http, "/v1/agent", iris.token, "iris")
            await become(len(expected), lambda: count_pending(broker, "iris"))
            assert [row["body"] for row in await inbox(peer)] == expected
            assert await pending(peer) == []
            await peer.ack(2**62)


@pytest.mark.requirement("remind.flood")
async def test_very_many_due_at_once_let_messages_through(tmp_path: Path, database: str) -> None:
    per_agent = 400
    async with running_broker(
        tmp_path,
        database_url=database,
        remind_max_pending_per_agent=per_agent,
        max_pending=100_000,
        pair_per_minute=100_000,
    ) as broker:
        await broker.add("ruth")
        iris = await broker.add("iris", parent="ruth")
        async with anyio.create_task_group() as tasks:
            for number in range(per_agent):
                tasks.start_soon(partial(remind, iris, f"r{number}", delay_seconds=60))
        broker.clock.now += 60
        sent: list[int] = []
        is_over = False

        async def go_on_sending() -> None:
            while not is_over:
                sent.append(await iris.send("ruth"))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                # Some always wait for their turn, whatever the machine does meanwhile.
                for _ in range(4):
                    tasks.start_soon(go_on_sending)
                while await count_pending(broker, "iris") < per_agent:
                    pass
                is_over = True
        assert per_agent > 4 * BATCH_ROWS
        fired = await inbox(iris)
        assert sorted(row["body"] for row in fired) == sorted(f"r{n}" for n in range(per_agent))
        between = [number for number in sent if fired[0]["id"] < number < fired[-1]["id"]]
        assert between, "messages pass between batches"
        assert await pending(iris) == []


@pytest.mark.requirement("remind.spill-states")
async def test_a_surface_can_ask_which_files_are_still_needed(broker: Broker, ruth: Peer, iris: Peer) -> None:
    async def state(agent: Peer) -> object:
        return (await agent.get("POST", "/reminder-spills", {"spills": [SPILL]}))["states"]

    assert await state(iris) == {}
    await remind(iris, "its text is in a file", delay_seconds=5, spill=SPILL)
    assert await state(iris) == {SPILL: "pending"}
    broker.clock.now += 5
    await become({SPILL: "sent"}, lambda: state(iris))
    (row,) = await inbox(iris)
    await iris.ack(row["id"])
    assert await state(iris) == {SPILL: "acked"}
    assert await state(ruth) == {}


@pytest.mark.requirement("identity.reborn")
async def test_a_destroyed_agents_reminders_reach_nobody(broker: Broker, iris: Peer) -> None:
    await remind(iris, "for the first iris", delay_seconds=60)
    agent_id = (await broker.operator.get("GET", "/agents/iris"))["id"]
    event = {"event_id": "e1", "kind": "destroyed", "at": broker.clock.now, "agent_id": agent_id}
    await broker.operator.get("POST", "/driver/events", {"driver_id": "d", "events": [event]})
    reborn = await broker.add("iris", parent="ruth")
    assert await pending(reborn) == []
    assert (await broker.operator.get("GET", "/reminders"))["reminders"] == []
    broker.clock.now += 60
    await remind(broker.agents["ruth"], delay_seconds=1)
    broker.clock.now += 1
    await become(1, lambda: count_pending(broker, "ruth"))
    assert await reborn.recv() == []


@pytest.mark.requirement("planning.operator-sees")
async def test_the_operator_sees_all_reminders_and_those_of_one(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await remind(iris, "iris' own", delay_seconds=60)
    await remind(ruth, "ruth's own", delay_seconds=30)
    rows = (await broker.operator.get("GET", "/reminders"))["reminders"]
    assert [(row["agent"], row["body"]) for row in rows] == [("ruth", "ruth's own"), ("iris", "iris' own")]
    assert len((await broker.operator.get("GET", "/reminders?agent=iris"))["reminders"]) == 1
    page = await broker.operator.get("GET", "/reminders?limit=1")
    assert (len(page["reminders"]), page["more"]) == (1, True)
    await broker.operator.refused(404, "GET", "/reminders?agent=milo")


@pytest.mark.requirement("planning.operator-cancels")
async def test_the_operator_cancels_a_reminder_of_anybody_once(broker: Broker, iris: Peer) -> None:
    await remind(iris, "never mind", delay_seconds=60)
    (row,) = (await broker.operator.get("GET", "/reminders"))["reminders"]
    assert await broker.operator.get("DELETE", f"/reminders/{row['id']}") == row
    assert await pending(iris) == []
    again = await broker.operator.refused(404, "DELETE", f"/reminders/{row['id']}")
    assert "was cancelled, or never was" in again["message"]
    broker.clock.now += 61
    await remind(broker.agents["ruth"], delay_seconds=1)
    broker.clock.now += 1
    await become(1, lambda: count_pending(broker, "ruth"))
    assert await iris.recv() == []
