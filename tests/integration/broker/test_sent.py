"""What became of a message: for its sender, for the operator, and among the sender's loose ends."""

from __future__ import annotations

from typing import Any

import pytest

from services.broker.service.loose_ends import LONG_SECONDS, MAX_SENT, NEWS_SECONDS
from services.broker.service.parking import MAX_FAILED_TURNS
from tests.integration.broker.running import BOOTS, Broker, Peer
from tests.integration.lifecycle.driver import Driver


async def state_of(sender: Peer, number: int) -> tuple[str, int, str]:
    row = await sender.get("GET", f"/messages/{number}")
    return row["state"], row["delivered_count"], row["recipient_state"]


async def waiting(peer: Peer) -> list[dict[str, Any]]:
    rows = (await peer.get("GET", "/loose-ends"))["loose_ends"]
    return [row for row in rows if row["kind"] == "sent"]


@pytest.mark.requirement("sent.state")
async def test_a_sender_sees_each_step_of_its_message(broker: Broker, ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris", "secret")
    assert await state_of(ruth, number) == ("pending", 0, "stopped")
    async with broker.connect(iris, BOOTS[0]) as stream:
        await stream.next_grants()
        for times in (1, 2):
            await iris.recv()
            assert await state_of(ruth, number) == ("delivered", times, "running")
            await iris.get("POST", "/inbox/release", {"ids": [number]})
        await iris.ack(number)
        assert await state_of(ruth, number) == ("acked", 2, "running")
    assert (await ruth.get("GET", f"/messages/{number}"))["body"] == ""


@pytest.mark.requirement("sent.state")
async def test_a_sender_sees_that_a_message_was_parked_or_its_recipient_destroyed(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    number = await ruth.send("iris")
    for turn in range(MAX_FAILED_TURNS):
        await iris.recv(turn=f"t{turn}")
        await iris.get("POST", "/inbox/release", {"turn": f"t{turn}", "failed": True})
    assert await state_of(ruth, number) == ("parked", MAX_FAILED_TURNS, "stopped")
    await Driver(broker).saw("iris", "destroyed")
    await broker.add("iris", parent="ruth")
    assert await state_of(ruth, number) == ("parked", MAX_FAILED_TURNS, "destroyed")
    assert (await state_of(ruth, await ruth.send("operator")))[2] == "operator"


@pytest.mark.requirement("sent.state")
async def test_others_messages_are_as_good_as_none(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    foreign = await iris.refused(404, "GET", f"/messages/{number}")
    absent = await iris.refused(404, "GET", f"/messages/{number + 1}")
    assert foreign["message"].replace(str(number), "N") == absent["message"].replace(str(number + 1), "N")


@pytest.mark.requirement("sent.operator")
async def test_the_operator_pages_through_what_waits_of_their_own_or_of_an_agent(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    own = [await broker.operator.send("iris", f"number {count}") for count in range(4)]
    theirs = await ruth.send("iris")
    await iris.recv(1)
    await iris.get("POST", "/inbox/ack", {"up_to": own[0]})

    page = await broker.operator.get("GET", "/sent?limit=2")
    assert ([row["id"] for row in page["messages"]], page["more"]) == (own[2:], True)
    assert [row["body"] for row in page["messages"]] == ["number 2", "number 3"]
    older = await broker.operator.get("GET", f"/sent?limit=2&before={own[2]}")
    assert ([row["id"] for row in older["messages"]], older["more"]) == ([own[1]], False)
    (row,) = (await broker.operator.get("GET", "/agents/ruth/sent"))["messages"]
    assert (row["id"], row["state"], row["recipient_state"]) == (theirs, "pending", "stopped")
    acked = await broker.operator.get("GET", f"/messages/{own[0]}")
    assert (acked["state"], acked["delivered_count"], acked["body"]) == ("acked", 1, "number 0")
    await broker.operator.refused(404, "GET", "/agents/nobody/sent")
    await broker.operator.refused(404, "GET", "/messages/999999")


@pytest.mark.requirement("sent.loose-end")
async def test_a_message_that_waits_for_an_hour_is_a_loose_end_until_it_is_acked(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await ruth.send("operator")
    number, sent_at = await ruth.send("iris"), broker.clock.now
    broker.clock.now += LONG_SECONDS - 1
    assert await waiting(ruth) == []
    broker.clock.now += 1
    row = {"kind": "sent", "id": number, "created_at": sent_at}
    assert await waiting(ruth) == [row | {"summary": "to iris, who is stopped: pending"}]
    assert await waiting(iris) == []
    await iris.recv()
    said = "to iris, who is stopped: delivered, handed out once"
    assert await waiting(ruth) == [row | {"summary": said}]
    await iris.ack(number)
    assert await waiting(ruth) == []


@pytest.mark.requirement("sent.loose-end")
async def test_of_very_many_the_oldest_are_loose_ends_and_none_after_a_week(
    broker: Broker, ruth: Peer
) -> None:
    ids = [await ruth.send("iris") for _ in range(MAX_SENT + 5)]
    broker.clock.now += NEWS_SECONDS
    assert [row["id"] for row in await waiting(ruth)] == ids[:MAX_SENT]
    broker.clock.now += 1
    assert await waiting(ruth) == []


async def test_a_reminder_of_ones_own_is_not_what_one_has_sent(broker: Broker, iris: Peer) -> None:
    await iris.get("POST", "/reminders", {"body": "later", "delay_seconds": 1})
    async with broker.connect(iris) as stream:
        broker.clock.now += 2
        while await stream.next_pending() == 0:
            pass
    broker.clock.now += LONG_SECONDS
    assert await waiting(iris) == []
