"""`NeedsUpdate`: what the root agent is told when a daemon does not run what the broker runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.broker.service.revisions import AT_ONCE
from shared.revision import revision
from tests.integration.broker.running import BOOTS, Broker, Peer, running_broker


async def connect(broker: Broker, peer: Peer, running: str) -> None:
    """Connect as a daemon of that revision, and go."""
    broker.clock.now += 2
    async with broker.connect(peer, BOOTS[0], revision=running) as stream:
        await stream.next_grants()


async def told(broker: Broker) -> list[dict[str, Any]]:
    """What lies in the root agent's inbox."""
    page = await broker.operator.get("GET", "/agents/ruth/inbox")
    assert {row["sender"] for row in page["messages"]} <= {"system"}
    return [json.loads(row["body"]) for row in page["messages"]]


def needs(agent: str, running: str, deployed: str | None = None) -> dict[str, str]:
    return {
        "event": "NeedsUpdate",
        "agent": agent,
        "running_rev": running,
        "deployed_rev": deployed or revision(),
    }


@pytest.mark.requirement("system.needs-update")
async def test_another_revision_than_the_brokers_is_told_once_for_each_change(
    broker: Broker, iris: Peer, ruth: Peer
) -> None:
    for running in ("0.0.1", "0.0.1", revision(), revision(), "0.0.1", "0.0.2", "0.0.2"):
        await connect(broker, iris, running)
    await connect(broker, ruth, "0.0.3")

    runs = [("iris", "0.0.1"), ("iris", "0.0.1"), ("iris", "0.0.2"), ("ruth", "0.0.3")]
    assert await told(broker) == [needs(agent, running) for agent, running in runs]
    assert (await iris.get("POST", "/inbox/recv", {"max": 5}))["messages"] == []


@pytest.mark.requirement("system.needs-update")
async def test_an_agent_that_the_broker_has_overtaken_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for deployed in ("0.0.1", "0.0.2", "0.0.2", "0.0.1", "0.0.2"):
        monkeypatch.setattr("services.broker.app.revision", lambda deployed=deployed: deployed)
        async with running_broker(tmp_path) as broker:
            if deployed == "0.0.1" and not (tmp_path / "iris").exists():
                await broker.add("ruth")
                iris = await broker.add("iris", parent="ruth")
                (tmp_path / "iris").write_text(iris.token)
            iris = Peer(broker.http, "/v1/agent", (tmp_path / "iris").read_text(), "iris")
            await connect(broker, iris, "0.0.1")
            found = await told(broker)

    assert found == [needs("iris", "0.0.1", "0.0.2")] * 2


@pytest.mark.requirement("system.needs-update")
async def test_a_full_inbox_of_root_hears_of_it_and_a_flood_of_changes_tells_few(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        await broker.add("ruth")
        iris = await broker.add("iris", parent="ruth")
        for number in range(AT_ONCE + 10):
            await connect(broker, iris, f"0.0.{number}")

        assert await told(broker) == [needs("iris", f"0.0.{number}") for number in range(AT_ONCE + 1)]
