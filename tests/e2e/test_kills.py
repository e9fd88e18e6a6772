"""kill -9, twenty times, of broker, NATS and both, under sixteen senders, sixteen receivers and a driver.

What was answered is there, once; what was acked stays acked; a row is in one hand; each transition is in the
stream once and in order. All parties go on by themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
from tests.support.traffic import Traffic
from tests.support.units import Units, running_units

KILLS = 20
SENDERS = 16
# One receiver each, which acks; and two each, which keep or give back.
ACKING = [f"acking-{number}" for number in range(8)]
SHARED = [f"shared-{number}" for number in range(4)]
LIVING = [f"living-{number}" for number in range(6)]
# What must have been answered between two kills, so that none hits a standstill.
SENDS_BETWEEN, TRANSITIONS_BETWEEN = 32, 4
LIMITS = {
    "HIVE_BROKER_MAX_PENDING": "100000",
    "HIVE_BROKER_PAIR_PER_MINUTE": "0",
    "HIVE_LOG_LEVEL": "warning",
}
NATS, BROKER = "nats", "broker"


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="hn-") as directory, nats_server(Path(directory)) as server:
        yield server


@pytest.fixture
def killable(server: NatsServer) -> Iterator[Units]:
    """A broker on that server, quick to start again, with agents that have no processes."""
    settings = {f"HIVE_BROKER_{name.upper()}": str(value) for name, value in server.settings().items()}
    with running_units(**LIMITS, **settings) as units:
        names = ["ruth", *(f"sender-{number}" for number in range(SENDERS)), *ACKING, *SHARED, *LIVING]
        for name in names:
            units.enlist(name, parent=None if name == "ruth" else "ruth")
        units.broker.preload("services.broker.__main__")
        yield units


def kill(units: Units, server: NatsServer, victims: set[str]) -> None:
    """`kill -9` all of them, then start all of them, at the same time."""
    if NATS in victims:
        server.kill()
    if BROKER in victims:
        units.broker.kill()
    starts = {NATS: server.start, BROKER: units.broker.start}
    with ThreadPoolExecutor(len(victims)) as pool:
        for started in [pool.submit(starts[victim]) for victim in victims]:
            started.result()


@pytest.mark.requirement("kills.messages", "kills.transitions")
@pytest.mark.parametrize("victims", [{BROKER}, {NATS}, {BROKER, NATS}], ids="+".join)
async def test_twenty_kills_under_load(killable: Units, server: NatsServer, victims: set[str]) -> None:
    traffic = Traffic(killable)
    ledger = traffic.ledger
    agents = killable.agents
    with anyio.fail_after(150):
        async with anyio.create_task_group() as tasks:
            for number in range(SENDERS):
                to = [*ACKING, *SHARED]
                tasks.start_soon(
                    traffic.send, agents[f"sender-{number}"], to[number % len(to) :] + to[: number % len(to)]
                )
            for name in ACKING:
                tasks.start_soon(traffic.receive_and_ack, agents[name])
            for name in SHARED:
                for hand in ("left", "right"):
                    tasks.start_soon(traffic.receive_and_keep, agents[name], hand)
            tasks.start_soon(traffic.live, LIVING)
            for _ in range(KILLS):
                await ledger.advance(sends=SENDS_BETWEEN, transitions=TRANSITIONS_BETWEEN)
                await anyio.to_thread.run_sync(kill, killable, server, victims)
            traffic.stop()
        # The clock of the notices runs from here: all parties have finished with what they had begun.
        notices = await read_notices(server, expected=ledger.transitions)

    check_notices(traffic, notices)
    stored = {name: rows_of(killable, agents[name]) for name in (*ACKING, *SHARED)}
    check_stored_once(traffic, stored)
    for name in ACKING:
        check_acked(traffic, name, stored[name])
    for name in SHARED:
        check_held(traffic, stored[name])
