"""Readers at the broker: the durable is made once NATS is there, once, and goes with the reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.readers import ReaderService
from shared.wire.notices import GrantReader
from tests.integration.broker.running import Broker, running_broker
from tests.integration.lifecycle.driver import Driver
from tests.integration.notices.parts import Parts, running_bus
from tests.support.nats import NatsServer, nats_server

DURABLE = "h1-READER-default"
DEFAULT = {
    "name": "default",
    "durable": DURABLE,
    "inbox_prefix": "_INBOX_h1-READER-default",
    "ready": True,
}


@pytest.fixture
async def parts(server: NatsServer, tmp_path: Path) -> AsyncIterator[Parts]:
    """The broker's parts without the broker."""
    async with running_bus(server, tmp_path) as parts:
        await parts.bus.wait_connected()
        yield parts


async def wait_ready(broker: Broker) -> dict[str, Any]:
    with anyio.fail_after(10):
        while True:
            (reader,) = await broker.operator.get("GET", "/notice-readers")
            if reader["ready"]:
                return dict(reader)
            await anyio.sleep(0.02)


async def test_a_reader_is_granted_once_and_has_its_consumer(broker: Broker, server: NatsServer) -> None:
    await wait_connected(broker)

    for _ in range(2):
        assert await broker.operator.get("POST", "/notice-readers", {"name": "default"}) == DEFAULT

    assert await broker.operator.get("GET", "/notice-readers") == [DEFAULT]
    async with server.reader() as (client, _):
        info = await client.jetstream().consumer_info("SWARM_NOTICES", DURABLE)
    assert info.config.filter_subject == "swarm.notices.h1.>"


async def test_a_reader_granted_while_nats_is_away_gets_its_consumer_later(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", start=False) as server:
        async with running_broker(tmp_path / "hive", **server.settings()) as broker:
            await broker.add("ruth")
            granted = await broker.operator.get("POST", "/notice-readers", {"name": "default"})
            await Driver(broker).saw("ruth", "started")
            assert granted == {**DEFAULT, "ready": False}

            await anyio.to_thread.run_sync(server.start)

            assert await wait_ready(broker) == DEFAULT
            async with server.reader() as (client, _):
                pull = await client.jetstream().pull_subscribe_bind(DURABLE, "SWARM_NOTICES")
                (row,) = await pull.fetch(1, timeout=5)
            assert row.subject == "swarm.notices.h1.ruth.started"


async def wait_connected(broker: Broker) -> None:
    with anyio.fail_after(10):
        while not (await broker.operator.get("GET", "/hive"))["nats_connected"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def count_consumers(server: NatsServer) -> int:
    async with server.broker() as (client, _):
        return int((await client.jetstream().stream_info("SWARM_NOTICES")).state.consumer_count)


async def test_a_revoked_reader_is_forgotten_with_its_consumer_and_begins_anew(
    broker: Broker, server: NatsServer
) -> None:
    await wait_connected(broker)
    await Driver(broker).saw("ruth", "started")
    for _ in range(2):
        await broker.operator.get("POST", "/notice-readers", {"name": "default"})
        async with server.reader() as (client, _):
            pull = await client.jetstream().pull_subscribe_bind(DURABLE, "SWARM_NOTICES")
            (row,) = await pull.fetch(1, timeout=5)
            await row.ack_sync(timeout=5)

        await broker.operator.get("DELETE", "/notice-readers/default")

        assert await broker.operator.get("GET", "/notice-readers") == []
        assert await count_consumers(server) == 0
    await broker.operator.refused(404, "DELETE", "/notice-readers/default")
    await broker.operator.refused(422, "DELETE", "/notice-readers/A.b")


async def test_a_revocation_that_was_cut_off_is_completed_by_the_next(
    broker: Broker, server: NatsServer
) -> None:
    await wait_connected(broker)
    async with server.broker() as (client, _):
        await client.jetstream().add_consumer(
            "SWARM_NOTICES", name=DURABLE, durable_name=DURABLE, filter_subject="swarm.notices.h1.>"
        )

    await broker.operator.get("DELETE", "/notice-readers/default")

    assert await count_consumers(server) == 0


async def test_while_nats_is_away_no_reader_is_half_revoked(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", start=False) as server:
        async with running_broker(tmp_path / "hive", **server.settings()) as broker:
            await broker.operator.get("POST", "/notice-readers", {"name": "default"})

            await broker.operator.refused(503, "DELETE", "/notice-readers/default")

            assert len(await broker.operator.get("GET", "/notice-readers")) == 1


async def test_a_consumer_made_beside_a_revocation_does_not_stay(parts: Parts, server: NatsServer) -> None:
    readers = ReaderService(parts.store, parts.bus, hive="h1", clock=lambda: 1)
    await readers.grant(GrantReader(name="default"))
    await readers.revoke("default")

    await readers._ensure("default")

    assert await count_consumers(server) == 0


async def test_a_name_that_is_none_is_refused(broker: Broker) -> None:
    for name in ("", "..", "A", "a.b", ">", "x" * 33):
        await broker.operator.refused(422, "POST", "/notice-readers", {"name": name})
