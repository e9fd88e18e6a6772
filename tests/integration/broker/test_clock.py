"""The clock is set back by a day: nothing is lost, disordered, or refused for seeming to lie ahead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.broker.running import Broker, TurnedClock, running_broker

DAY = 24 * 3600

pytestmark = pytest.mark.requirement("storage.clock-back")


async def test_messages_keep_their_order_and_their_acks(tmp_path: Path) -> None:
    clock = TurnedClock()
    async with running_broker(tmp_path, clock) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        acked, waiting = await ruth.send("iris"), await ruth.send("iris")
        await iris.recv(1)
        await iris.ack(acked)
    clock.now -= DAY
    async with running_broker(tmp_path, clock) as broker:
        iris, ruth = (replace(peer, http=broker.http) for peer in (iris, ruth))
        later = await ruth.send("iris")

        assert await iris.recv() == [waiting, later]
        await iris.ack(later)
        assert await iris.recv() == []


async def test_a_status_is_seen_although_an_earlier_one_seems_later(broker: Broker) -> None:
    iris = broker.agents["iris"]
    for text in ("before", "after"):
        await iris.get("PUT", "/status", {"text": text, "set_at": broker.clock.now})
        assert (await iris.get("GET", "/meta"))["status_text"] == text
        broker.clock.now -= DAY


async def test_limits_on_chatter_end_when_they_would_have_ended(tmp_path: Path) -> None:
    async with running_broker(tmp_path, pair_per_minute=2, max_hops=1) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        await ruth.send("iris")
        await iris.recv()
        await iris.refused(429, "POST", "/messages", {"to": "ruth", "body": "x"})
        await ruth.send("iris")
        await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})
        broker.clock.now -= DAY

        await ruth.send("iris")
        await iris.send("operator")


async def test_limits_that_the_operator_lifted_are_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path, pair_per_minute=1) as broker:
        ruth, _ = await broker.add("ruth"), await broker.add("iris")
        await broker.operator.send("ruth")
        broker.clock.now -= DAY

        await ruth.send("iris")
        await ruth.refused(429, "POST", "/messages", {"to": "iris", "body": "x"})


async def test_the_operator_can_tell_that_it_was_set_back(broker: Broker) -> None:
    ruth = broker.agents["ruth"]
    begun = broker.clock.now
    await ruth.send("iris")
    broker.clock.now -= DAY
    hive = await broker.operator.get("GET", "/hive")
    assert (hive["clock_at"], hive["newest_at"]) == (begun - DAY, begun)
    await broker.operator.get("POST", "/agents/iris/jobs", {"kind": "stop"})
    # Whatever is stored last says so, whichever table it is in.
    assert (await broker.operator.get("GET", "/hive"))["newest_at"] == begun
