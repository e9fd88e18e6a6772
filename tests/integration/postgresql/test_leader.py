"""Which of two brokers publishes notices: one, in order, each once, also when it is killed or frozen."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from shared.runtime.ids import new_ulid
from shared.wire.notices import STREAM
from tests.integration.conftest import Databases
from tests.integration.notices.parts import read_stream
from tests.support.access import OperatorAccess
from tests.support.nats import NatsServer, nats_server
from tests.support.units import BROKER_MODULE, Unit, Units, running_units
from tests.support.waiting import eventually

pytestmark = [pytest.mark.database("postgresql"), pytest.mark.requirement("shared.notices")]

TAKEOVER_SECONDS = 10.0
BURST = 30
KINDS = ("started", "stopped")


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="hn-") as directory, nats_server(Path(directory)) as server:
        yield server


@dataclass
class Hive:
    """Two brokers as processes; `expected` is what the stream must hold, in order."""

    first: Units
    second: Units
    expected: list[str]

    @property
    def brokers(self) -> tuple[Unit, Unit]:
        return self.first.broker, self.second.broker

    def leader(self) -> Unit:
        """The broker that leads, once one does."""
        return eventually(self._find_leader, within=TAKEOVER_SECONDS, what="a broker that leads")

    def other(self, broker: Unit) -> Unit:
        return self.brokers[1 - self.brokers.index(broker)]

    def burst(self, at: Unit) -> None:
        """Report transitions of ruth, all in one request to this broker."""
        kinds = [KINDS[number % 2] for number in range(BURST)]
        events = [{"event_id": new_ulid(), "kind": kind, "at": 1, "agent_id": 1} for kind in kinds]
        self.operator_of(at).json("POST", "/driver/events", {"driver_id": "d", "events": events})
        self.expected += [f"swarm.notices.h1.ruth.{kind}" for kind in kinds]

    def operator_of(self, broker: Unit) -> OperatorAccess:
        return (self.first if broker is self.first.broker else self.second).operator

    def _find_leader(self) -> Unit | None:
        leading = [broker for broker in self.brokers if _leads(broker)]
        return leading[0] if len(leading) == 1 else None


def _leads(broker: Unit) -> bool:
    """Whether it said so last, in this life."""
    if broker.process is None or broker.process.poll() is not None:
        return False
    leads = False
    for line in broker.log_text().splitlines():
        said = json.loads(line)
        if said["event"] == "database_session_opened":
            leads = False
        leads = said.get("leads", leads)
    return leads


@pytest.fixture(scope="module")
def hive(
    databases: Databases, server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hive]:
    """The same for all tests here: each leaves both brokers running."""
    settings = {f"HIVE_BROKER_{name.upper()}": str(value) for name, value in server.settings().items()}
    with ExitStack() as stack:
        url = stack.enter_context(databases.make(tmp_path_factory.mktemp("leader")))
        settings |= {"HIVE_BROKER_DATABASE_URL": url}
        first, second = (
            stack.enter_context(running_units(preload=BROKER_MODULE, **settings)) for _ in range(2)
        )
        first.enlist("ruth")
        yield Hive(first, second, [])


async def check_stream(hive: Hive, server: NatsServer) -> None:
    """All that was committed is in the stream within ten seconds: each once, and in order."""
    with anyio.fail_after(TAKEOVER_SECONDS):
        async with server.reader() as (client, _):
            stream = client.jetstream()
            while (await stream.stream_info(STREAM)).state.messages < len(hive.expected):  # noqa: ASYNC110
                await anyio.sleep(0.02)
    async with server.reader() as (client, _):
        found = await read_stream(client)
    assert [subject for subject, _ in found] == hive.expected
    assert len({event_id for _, event_id in found}) == len(hive.expected)


def count_published(broker: Unit) -> int:
    return broker.log_text().count("notice_published")


async def test_the_one_that_leads_publishes_what_both_commit(hive: Hive, server: NatsServer) -> None:
    leader = hive.leader()
    before = [count_published(broker) for broker in (leader, hive.other(leader))]
    for broker in hive.brokers * 2:
        hive.burst(broker)
    await check_stream(hive, server)
    after = [count_published(broker) for broker in (leader, hive.other(leader))]
    assert after == [before[0] + 4 * BURST, before[1]]


async def test_the_other_takes_over_when_the_leader_is_killed(hive: Hive, server: NatsServer) -> None:
    for _ in range(4):
        leader = await anyio.to_thread.run_sync(hive.leader)
        survivor = hive.other(leader)
        hive.burst(survivor)
        leader.kill()
        hive.burst(survivor)
        await check_stream(hive, server)
        await anyio.to_thread.run_sync(leader.start)


async def test_the_other_takes_over_from_one_that_is_frozen_and_later_wakes(
    hive: Hive, server: NatsServer
) -> None:
    leader = hive.leader()
    survivor = hive.other(leader)
    hive.burst(survivor)
    with leader.frozen():
        hive.burst(survivor)
        await check_stream(hive, server)
    # It finds out that it does not lead any more, and serves as before.
    eventually(lambda: leader.log_text().count("lead_changed") >= 2, within=TAKEOVER_SECONDS)
    hive.burst(leader)
    await check_stream(hive, server)
    assert httpx2.get(f"{leader.url}/readyz", trust_env=False).status_code == 200
