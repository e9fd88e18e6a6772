"""Two brokers on one PostgreSQL database, with the agents `ruth` and `iris`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from shared.runtime.credential import new_token
from tests.integration.broker.running import Broker, Peer, TurnedClock, running_broker


@dataclass(frozen=True)
class Pair:
    """The brokers, and everybody's way to either."""

    a: Broker
    b: Broker

    def at_a(self, name: str) -> Peer:
        return self.a.agents[name]

    def at_b(self, name: str) -> Peer:
        return replace(self.a.agents[name], http=self.b.http)

    def both(self, name: str) -> tuple[Peer, Peer]:
        return self.at_a(name), self.at_b(name)


@pytest.fixture
def operator_token(tmp_path: Path) -> Path:
    """The operator's token, which both brokers accept."""
    path = tmp_path / "operator-token"
    path.write_text(new_token())
    path.chmod(0o600)
    return path


@pytest.fixture
async def pair(database: str, operator_token: Path, tmp_path: Path) -> AsyncIterator[Pair]:
    settings = {"database_url": database, "operator_token_file": operator_token, "pair_per_minute": 0}
    clock = TurnedClock()
    async with (
        running_broker(tmp_path / "a", clock, **settings) as a,
        running_broker(tmp_path / "b", clock, **settings) as b,
    ):
        await a.add("ruth")
        await a.add("iris", parent="ruth")
        yield Pair(a, b)
