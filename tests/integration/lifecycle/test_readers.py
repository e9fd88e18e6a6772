"""Granting readers at the broker: the durable is made when NATS is there, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from tests.integration.broker.running import Broker, running_broker
from tests.integration.lifecycle.driver import Driver
from tests.support.nats import NatsServer, nats_server

DURABLE = "h1-READER-default"
DEFAULT = {
    "name": "default",
    "durable": DURABLE,
    "inbox_prefix": "_INBOX_h1-READER-default",
    "ready": True,
}


async def wait_ready(broker: Broker) -> dict[str, Any]:
    with anyio.fail_after(10):
        while True:
            (reader,) = await broker.operator.get("GET", "/notice-readers")
            if reader["ready"]:
                return dict(reader)
            await anyio.sleep(0.02)


async def test_a_reader_is_granted_once_and_has_its_consumer(broker: Broker, server: NatsServer) -> None:
    with anyio.fail_after(10):
        while not (await broker.operator.get("GET", "/hive"))["nats_connected"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)

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


async def test_a_name_that_is_none_is_refused(broker: Broker) -> None:
    for name in ("", "..", "A", "a.b", ">", "x" * 33):
        await broker.operator.refused(422, "POST", "/notice-readers", {"name": name})
