"""kill -9 of two brokers on one database, of both, and of PostgreSQL, under senders, receivers and a driver.

As `tests/e2e/test_kills.py` has it for one broker: what was answered is there, once; what was acked stays
acked; a row is in one hand; each transition is in the stream once and in order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from signal import SIGQUIT

import anyio
import anyio.to_thread
import pytest

from tests.support.audit import read_notices
from tests.support.cast import LIMITS, Cast
from tests.support.nats import NatsServer, nats_server
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.traffic import Traffic
from tests.support.units import BROKER_MODULE, Units, running_units

pytestmark = [pytest.mark.database("postgresql"), pytest.mark.requirement("shared.kills")]

ROUNDS = 2
CAST = Cast(senders=8, acking=4, shared=2, living=3, sends_between=24, transitions_between=2)


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="hn-") as directory, nats_server(Path(directory)) as server:
        yield server


@pytest.fixture
def own_postgres(database_kind: str) -> Iterator[PostgresServer]:
    # With fsync as it comes: a crash of the server must lose nothing that it has acked.
    with postgres_server(settings={}) as server:
        yield server


@pytest.fixture
def brokers(nats: NatsServer, own_postgres: PostgresServer) -> Iterator[tuple[Units, Units]]:
    """Two brokers, quick to start again; every other agent speaks to the second. Agents have no processes."""
    settings = {f"HIVE_BROKER_{name.upper()}": str(value) for name, value in nats.settings().items()}
    settings["HIVE_BROKER_DATABASE_URL"] = own_postgres.url_of(own_postgres.create_database())
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running_units(preload=BROKER_MODULE, **LIMITS, **settings)) for _ in range(2)
        )
        first.enlist("ruth")
        for number, name in enumerate(CAST.names):
            agent = first.enlist(name, parent="ruth")
            if number % 2:
                first.agents[name] = replace(agent, broker_url=second.broker.url)
        yield first, second


def kill_both(first: Units, second: Units) -> None:
    for units in (first, second):
        units.broker.kill()
    with ThreadPoolExecutor(2) as pool:
        for started in [pool.submit(units.broker.start) for units in (first, second)]:
            started.result()


async def test_kills_of_brokers_and_server_under_load(
    brokers: tuple[Units, Units], nats: NatsServer, own_postgres: PostgresServer
) -> None:
    first, second = brokers
    kills: list[Callable[[], None]] = [
        first.broker.restart,
        second.broker.restart,
        lambda: own_postgres.restart(SIGQUIT),
        lambda: kill_both(first, second),
    ]
    traffic = Traffic(first)
    ledger, agents = traffic.ledger, first.agents
    with anyio.fail_after(300):
        async with anyio.create_task_group() as tasks:
            for number, name in enumerate(CAST.sending_names):
                tasks.start_soon(traffic.send, agents[name], CAST.addressed_by(number))
            for name in CAST.acking_names:
                tasks.start_soon(traffic.receive_and_ack, agents[name])
            for name in CAST.shared_names:
                for hand, units in (("left", first), ("right", second)):
                    agent = replace(agents[name], broker_url=units.broker.url)
                    tasks.start_soon(traffic.receive_and_keep, agent, hand)
            tasks.start_soon(traffic.live, CAST.living_names)
            for kill in kills * ROUNDS:
                await CAST.advance(ledger)
                await anyio.to_thread.run_sync(kill)
            await CAST.advance(ledger)
            traffic.stop()
        notices = await read_notices(nats, expected=ledger.transitions)

    CAST.check(traffic, first, notices)
