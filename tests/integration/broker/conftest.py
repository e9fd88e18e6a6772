"""A broker with two agents: a new one for each test, or one that stands for tests that change nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.broker.running import Broker, Peer, running_broker
from tests.integration.conftest import Databases


@pytest.fixture(autouse=True)
def _database(database_setting: None) -> None:
    """Every test here runs on each database."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker with the root agent `ruth` and her child `iris`."""
    async with running_broker(tmp_path) as broker:
        await broker.add("ruth")
        await broker.add("iris", parent="ruth")
        yield broker


@pytest.fixture(scope="module")
async def standing(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """The same, shared by the tests of a module: for requests that must be refused."""
    root = tmp_path_factory.mktemp("broker")
    with databases.make(root) as url:
        async with running_broker(root, database_url=url) as broker:
            await broker.add("ruth")
            await broker.add("iris", parent="ruth")
            yield broker


@pytest.fixture
def ruth(broker: Broker) -> Peer:
    return broker.agents["ruth"]


@pytest.fixture
def iris(broker: Broker) -> Peer:
    return broker.agents["iris"]
