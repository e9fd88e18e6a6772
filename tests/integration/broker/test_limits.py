"""Full inboxes and the loop breaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.broker.service.limits import HOP_WINDOW_SECONDS, LIFTED_SECONDS, PAIR_WINDOW_SECONDS
from tests.integration.broker.running import Broker, Peer, running_broker


async def test_a_full_inbox_is_an_error_to_the_sender_until_rows_are_taken(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=2) as broker:
        ruth, iris, otto = [await broker.add(name) for name in ("ruth", "iris", "otto")]
        await broker.permit("ruth", add_capabilities=["broadcast"])
        rows = [await ruth.send("iris") for _ in range(2)]
        error = await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})
        assert (error["code"], error["details"]["full"]) == ("inbox_full", ["iris"])
        await ruth.refused(429, "POST", "/messages", {"to": "*", "body": "x"})
        assert await otto.recv() == [], "a broadcast goes to all or to none"
        await broker.operator.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})
        assert await iris.recv(1) == rows[:1]
        await ruth.send("iris")


async def bounce(first: Peer, second: Peer, most: int) -> int:
    """Have two agents answer each other; returns how many messages were stored before one was refused."""
    row = await first.send(second.name)
    for sent in range(1, most):
        first, second = second, first
        assert await first.recv() == [row]
        answer = await first.ask("POST", "/messages", {"to": second.name, "body": "x", "in_reply_to": row})
        if answer.status_code != 201:
            assert answer.json()["code"] == "too_many_hops", answer.text
            return sent
        row = answer.json()["sent"][0]["id"]
    return most


async def test_a_chain_of_answers_is_broken_and_the_operator_mends_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_hops=5, pair_per_minute=0) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        assert await bounce(ruth, iris, 10) == 5
        await broker.operator.send("iris", "go on")
        assert await iris.send("ruth")
        broker.clock.now += LIFTED_SECONDS
        await broker.operator.send("ruth", "and you")
        assert await ruth.send("iris")


async def test_a_chain_cannot_hide_by_leaving_in_reply_to_out(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_hops=3, pair_per_minute=0) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        await ruth.send("iris")
        await iris.recv()
        await iris.send("ruth")
        await ruth.recv()
        await ruth.send("iris")
        await iris.recv()
        error = await iris.refused(429, "POST", "/messages", {"to": "operator", "body": "x"})
        assert error["details"] == {"hops": 4, "limit": 3}
        broker.clock.now += HOP_WINDOW_SECONDS + 1
        await iris.send("ruth")


async def test_a_long_turn_does_not_forget_what_it_was_handed(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_hops=1, pair_per_minute=0) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        await ruth.send("iris")
        await iris.recv(turn="t1")
        broker.clock.now += HOP_WINDOW_SECONDS + 1
        await iris.refused(429, "POST", "/messages", {"to": "ruth", "body": "x", "turn": "t1"})
        await iris.get("POST", "/messages", {"to": "ruth", "body": "x", "turn": "t2"})


@pytest.mark.parametrize("other", ["iris", "operator"])
async def test_a_pair_may_exchange_so_many_messages_a_minute(tmp_path: Path, other: str) -> None:
    async with running_broker(tmp_path, pair_per_minute=3) as broker:
        ruth, iris, otto = [await broker.add(name) for name in ("ruth", "iris", "otto")]
        await ruth.send(other)
        broker.clock.now += 10
        await ruth.send(other)
        # The operator's own messages are not counted, an agent's answers are.
        await (iris.send("ruth") if other == "iris" else ruth.send(other))
        error = await ruth.refused(429, "POST", "/messages", {"to": other, "body": "x"})
        assert error["code"] == "pair_too_fast"
        assert error["details"]["retry_after_seconds"] == PAIR_WINDOW_SECONDS - 10
        await ruth.send("otto")
        await otto.send(other)
        broker.clock.now += error["details"]["retry_after_seconds"]
        await ruth.send(other)
        await ruth.refused(429, "POST", "/messages", {"to": other, "body": "x"})


async def test_a_message_of_the_operator_lifts_the_pair_limit_for_ten_minutes(tmp_path: Path) -> None:
    async with running_broker(tmp_path, pair_per_minute=1) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        await ruth.send("iris")
        await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})
        await broker.operator.send("ruth", "hurry")
        await ruth.send("iris")
        await iris.refused(429, "POST", "/messages", {"to": "ruth", "body": "x"})
        broker.clock.now += LIFTED_SECONDS - 1
        await ruth.send("iris")
        broker.clock.now += 1
        await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})


async def test_too_many_agents_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_agents=1) as broker:
        await broker.add("ruth")
        body = {"name": "iris", "token_sha256": "0" * 64}
        error = await broker.operator.refused(429, "POST", "/agents", body)
        assert "HIVE_BROKER_MAX_AGENTS" in error["message"]


async def test_a_body_over_the_limit_of_the_app_is_refused_unread(broker: Broker, ruth: Peer) -> None:
    await ruth.refused(413, "POST", "/messages", {"to": "iris", "body": "x" * 1_100_000})
