"""A broker with two agents for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.broker.running import Broker, Peer, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker with the root agent `ruth` and her child `iris`."""
    async with running_broker(tmp_path) as broker:
        await broker.add("ruth")
        await broker.add("iris", parent="ruth")
        yield broker


@pytest.fixture
def ruth(broker: Broker) -> Peer:
    return broker.agents["ruth"]


@pytest.fixture
def iris(broker: Broker) -> Peer:
    return broker.agents["iris"]
