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

from tests.support.audit import (
    check_acked,
    check_held,
    check_notices,
    check_stored_once,
    read_notices,
    rows_of,
)
from tests.support.nats import NatsServer, nats_server
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.traffic import Traffic
from tests.support.units import Units, running_units

pytestmark = [pytest.mark.database("postgresql"), pytest.mark.requirement("shared.kills")]

ROUNDS = 2
SENDERS = 8
ACKING = [f"acking-{number}" for number in range(4)]
SHARED = [f"shared-{number}" for number in range(2)]
LIVING = [f"living-{number}" for number in range(3)]
SENDS_BETWEEN, TRANSITIONS_BETWEEN = 24, 2
LIMITS = {
    "HIVE_BROKER_MAX_PENDING": "100000",
    "HIVE_BROKER_PAIR_PER_MINUTE": "0",
    "HIVE_LOG_LEVEL": "warning",
}


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
        first, second = (stack.enter_context(running_units(**LIMITS, **settings)) for _ in range(2))
        names = ["ruth", *(f"sender-{number}" for number in range(SENDERS)), *ACKING, *SHARED, *LIVING]
        for number, name in enumerate(names):
            agent = first.enlist(name, parent=None if name == "ruth" else "ruth")
            if number % 2:
                first.agents[name] = replace(agent, broker_url=second.broker.url)
        for units in (first, second):
            units.broker.preload("services.broker.__main__")
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
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for number in range(SENDERS):
                to = [*ACKING, *SHARED]
                tasks.start_soon(
                    traffic.send, agents[f"sender-{number}"], to[number % len(to) :] + to[: number % len(to)]
                )
            for name in ACKING:
                tasks.start_soon(traffic.receive_and_ack, agents[name])
            for name in SHARED:
                for hand, units in (("left", first), ("right", second)):
                    agent = replace(agents[name], broker_url=units.broker.url)
                    tasks.start_soon(traffic.receive_and_keep, agent, hand)
            tasks.start_soon(traffic.live, LIVING)
            for kill in kills * ROUNDS:
                await ledger.advance(sends=SENDS_BETWEEN, transitions=TRANSITIONS_BETWEEN)
                await anyio.to_thread.run_sync(kill)
            await ledger.advance(sends=SENDS_BETWEEN, transitions=TRANSITIONS_BETWEEN)
            traffic.stop()
        notices = await read_notices(nats, expected=ledger.transitions)

    check_notices(traffic, notices)
    stored = {name: rows_of(first, agents[name]) for name in (*ACKING, *SHARED)}
    check_stored_once(traffic, stored)
    for name in ACKING:
        check_acked(traffic, name, stored[name])
    for name in SHARED:
        check_held(traffic, stored[name])
