"""Failed turns: counted on each row of the turn, parked at the fifth, released by the operator alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.broker.service.parking import MAX_FAILED_TURNS
from tests.integration.broker.running import BOOTS, Broker, Peer, running_broker


async def fail(agent: Peer, turn: str, **more: Any) -> dict[str, Any]:
    """Report a turn as failed."""
    result: dict[str, Any] = await agent.get("POST", "/inbox/release", {"turn": turn, "failed": True, **more})
    return result


async def park(agent: Peer, *, after: int = MAX_FAILED_TURNS) -> None:
    """Have so many turns take what is pending, and fail."""
    for number in range(after):
        await agent.recv(turn=f"t{number}")
        await fail(agent, f"t{number}")


async def parked_ids(broker: Broker) -> list[int]:
    page = await broker.operator.get("GET", "/parked")
    return [row["id"] for row in page["messages"]]


@pytest.mark.requirement("delivery.parked")
async def test_five_failed_turns_park_a_message_and_the_next_one_is_handed_out(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    poison = await ruth.send("iris", "poison")
    for number in range(MAX_FAILED_TURNS - 1):
        assert await iris.recv(turn=f"t{number}") == [poison]
        assert await fail(iris, f"t{number}") == {"released": 1, "parked": []}
    harmless = await ruth.send("iris", "harmless")
    assert await iris.recv(1, turn="last") == [poison]
    assert await fail(iris, "last") == {"released": 0, "parked": [poison]}

    assert await iris.recv(turn="after") == [harmless]
    assert await parked_ids(broker) == [poison]


@pytest.mark.requirement("delivery.parked")
async def test_a_parked_message_waits_for_nobody_and_counts_for_nobody(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        number = await ruth.send("iris")
        await park(iris)

        result = await iris.get("POST", "/inbox/recv", {"boot": BOOTS[0]})
        assert (result["messages"], result["pending"]) == ([], 0)
        assert (await broker.operator.get("GET", "/agents/iris"))["pending"] == 0
        assert (await broker.operator.get("GET", "/hive"))["messages_parked"] == 1
        # It takes no place in a full inbox, and no ack that means what comes after it.
        later = await ruth.send("iris")
        assert (await iris.ack(later))["acked_ids"] == [later]
        assert await parked_ids(broker) == [number]


@pytest.mark.requirement("delivery.parked", "delivery.followed")
async def test_it_is_parked_wherever_it_is_seen(broker: Broker, ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris", "poison")
    await park(iris)

    sent = await ruth.get("GET", f"/messages/{number}")
    (listed,) = (await broker.operator.get("GET", "/agents/iris/inbox"))["messages"]
    (parked,) = (await broker.operator.get("GET", "/parked"))["messages"]
    assert [row["state"] for row in (sent, listed, parked)] == ["parked"] * 3
    assert (sent["body"], parked["body"]) == ("", "poison")
    assert (parked["failed_turns"], parked["parked_at"]) == (MAX_FAILED_TURNS, broker.clock.now)
    states = await iris.get("POST", "/inbox/states", {"ids": [number, number + 1]})
    assert states == {"states": {str(number): "parked"}}
    assert await ruth.get("POST", "/inbox/states", {"ids": [number]}) == {"states": {}}, "not ruth's inbox"


@pytest.mark.requirement("delivery.parked")
async def test_the_operator_lets_it_go_again_with_five_new_attempts(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    number = await ruth.send("iris")
    await park(iris)
    released = await broker.operator.get("POST", f"/messages/{number}/release")
    assert (released["state"], released["failed_turns"], released["parked_at"]) == ("pending", 0, None)
    assert await parked_ids(broker) == []

    await park(iris, after=MAX_FAILED_TURNS - 1)
    assert await iris.recv() == [number]
    error = await broker.operator.refused(409, "POST", f"/messages/{number}/release")
    assert (error["code"], error["details"]) == ("not_parked", {"state": "delivered"})


async def test_a_released_message_may_fill_an_inbox_up_but_nobody_adds_to_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        first = await ruth.send("iris")
        await park(iris)
        second = await ruth.send("iris")
        await broker.operator.get("POST", f"/messages/{first}/release")
        await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})
        assert await iris.recv() == [first, second]


async def test_what_is_not_there_or_belongs_to_the_dead_cannot_be_released(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    own = await iris.send("operator")
    await broker.operator.refused(404, "POST", "/messages/999/release")
    await broker.operator.refused(404, "POST", f"/messages/{own}/release")
    await ruth.refused(401, "GET", f"{broker.url}/v1/operator/parked")


@pytest.mark.requirement("delivery.failed-turn")
async def test_a_turn_counts_once_however_often_it_is_reported(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    await iris.recv(turn="t")
    assert await fail(iris, "t") == {"released": 1, "parked": []}
    for _ in range(MAX_FAILED_TURNS):
        assert await fail(iris, "t") == {"released": 0, "parked": []}
    assert (await ruth.get("GET", f"/messages/{number}"))["failed_turns"] == 1


@pytest.mark.requirement("delivery.failed-turn")
async def test_a_crash_of_the_daemon_in_between_does_not_hide_a_failed_turn(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    await iris.recv(turn="t", boot=BOOTS[0])
    await iris.get("POST", "/inbox/recv", {"boot": BOOTS[1], "max_bytes": 1024, "turn": "u", "max": 1})
    await iris.get("POST", "/inbox/release", {"turn": "u"})
    assert await fail(iris, "u") == {"released": 1, "parked": []}
    assert await fail(iris, "t") == {"released": 0, "parked": []}, "another turn has taken it since"
    assert (await ruth.get("GET", f"/messages/{number}"))["failed_turns"] == 1


@pytest.mark.requirement("delivery.failed-turn")
async def test_only_the_rows_of_the_failed_turn_count_it(ruth: Peer, iris: Peer) -> None:
    acked, failed, other, waiting = [await ruth.send("iris") for _ in range(4)]
    await iris.recv(2, turn="t")
    await iris.ack(acked)
    await iris.recv(1, turn="u")
    await fail(iris, "t")

    rows = [await ruth.get("GET", f"/messages/{number}") for number in (acked, failed, other, waiting)]
    assert [(row["state"], row["failed_turns"]) for row in rows] == [
        ("acked", 0),
        ("pending", 1),
        ("delivered", 0),
        ("pending", 0),
    ]


async def test_a_turn_that_did_not_fail_counts_nothing(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    for turn in range(MAX_FAILED_TURNS + 1):
        assert await iris.recv(turn=f"t{turn}") == [number]
        await iris.get("POST", "/inbox/release", {"turn": f"t{turn}"})
    assert (await ruth.get("GET", f"/messages/{number}"))["failed_turns"] == 0


@pytest.mark.requirement("delivery.failed-turn")
async def test_nobody_fails_the_turns_of_another(ruth: Peer, iris: Peer) -> None:
    number = await ruth.send("iris")
    await iris.recv(turn="t")
    assert await fail(ruth, "t") == {"released": 0, "parked": []}
    assert (await ruth.get("GET", f"/messages/{number}"))["state"] == "delivered"


async def test_failed_needs_a_turn(standing: Broker) -> None:
    error = await standing.agents["iris"].refused(422, "POST", "/inbox/release", {"failed": True})
    assert "turn" in error["message"]


@pytest.mark.requirement("delivery.one-hand")
async def test_a_repeated_recv_does_not_hand_out_what_was_given_back_or_parked(
    ruth: Peer, iris: Peer
) -> None:
    key = {"Idempotency-Key": "k-1"}
    number = await ruth.send("iris")
    first = await iris.get("POST", "/inbox/recv", {"turn": "t"}, headers=key)
    assert [row["id"] for row in first["messages"]] == [number]
    await fail(iris, "t")
    assert (await iris.get("POST", "/inbox/recv", {"turn": "t"}, headers=key))["messages"] == []
    assert await iris.recv(turn="u") == [number]
    # It is out again, but by another delivery: two hands would hold it.
    assert (await iris.get("POST", "/inbox/recv", {"turn": "t"}, headers=key))["messages"] == []


async def test_parked_messages_are_paged_newest_last(broker: Broker, ruth: Peer, iris: Peer) -> None:
    numbers = [await ruth.send("iris") for _ in range(3)]
    await park(iris)
    newest = await broker.operator.get("GET", "/parked?limit=2")
    assert ([row["id"] for row in newest["messages"]], newest["more"]) == (numbers[1:], True)
    older = await broker.operator.get("GET", f"/parked?before={numbers[1]}")
    assert ([row["id"] for row in older["messages"]], older["more"]) == (numbers[:1], False)


@pytest.mark.parametrize("by", ["ids", "up_to"])
@pytest.mark.requirement("delivery.marked-read")
async def test_the_operator_marks_an_agents_messages_as_read(
    broker: Broker, ruth: Peer, iris: Peer, by: str
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    parked = await ruth.send("iris")
    await park(iris)
    unseen = await ruth.send("iris")
    urgent = await ruth.send("iris", urgent=True)
    assert await iris.recv(1) == [urgent]

    what = {"up_to": urgent} if by == "up_to" else {"ids": [parked, unseen, urgent]}
    done = await broker.operator.get("POST", "/agents/iris/inbox/ack", what)
    assert done["acked_ids"] == ([unseen, urgent] if by == "up_to" else [parked, unseen, urgent])
    assert await iris.recv() == []
    assert await parked_ids(broker) == ([parked] if by == "up_to" else [])
    await broker.operator.refused(404, "POST", "/agents/irs/inbox/ack", {"up_to": 1})
