"""A broker on a real nats-server, with the root agent `ruth`, her child `iris`, and a driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.broker.running import Broker, running_broker
from tests.integration.lifecycle.driver import Driver
from tests.support.nats import NatsServer, nats_server


@pytest.fixture(autouse=True)
def _database(database_setting: None) -> None:
    """Every test here runs on each database."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def broker(server: NatsServer, tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path / "hive", **server.settings()) as broker:
        await broker.add("ruth")
        await broker.add("iris", parent="ruth")
        yield broker


@pytest.fixture
def driver(broker: Broker) -> Driver:
    return Driver(broker)
