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

from tests.support.audit import read_notices
from tests.support.cast import LIMITS, Cast
from tests.support.nats import NatsServer, nats_server
from tests.support.traffic import Traffic
from tests.support.units import BROKER_MODULE, Units, running_units

KILLS = 20
CAST = Cast(senders=16, acking=8, shared=4, living=6, sends_between=32, transitions_between=4)
NATS, BROKER = "nats", "broker"


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="hn-") as directory, nats_server(Path(directory)) as server:
        yield server


@pytest.fixture
def killable(server: NatsServer) -> Iterator[Units]:
    """A broker on that server, quick to start again, with agents that have no processes."""
    settings = {f"HIVE_BROKER_{name.upper()}": str(value) for name, value in server.settings().items()}
    with running_units(preload=BROKER_MODULE, **LIMITS, **settings) as units:
        units.enlist("ruth")
        for name in CAST.names:
            units.enlist(name, parent="ruth")
        yield units


def kill(units: Units, server: NatsServer, victims: tuple[str, ...]) -> None:
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
@pytest.mark.parametrize("victims", [(BROKER,), (NATS,), (BROKER, NATS)], ids="+".join)
async def test_twenty_kills_under_load(killable: Units, server: NatsServer, victims: tuple[str, ...]) -> None:
    traffic = Traffic(killable)
    ledger = traffic.ledger
    agents = killable.agents
    with anyio.fail_after(300):
        async with anyio.create_task_group() as tasks:
            for number, name in enumerate(CAST.sending_names):
                tasks.start_soon(traffic.send, agents[name], CAST.addressed_by(number))
            for name in CAST.acking_names:
                tasks.start_soon(traffic.receive_and_ack, agents[name])
            for name in CAST.shared_names:
                for hand in ("left", "right"):
                    tasks.start_soon(traffic.receive_and_keep, agents[name], hand)
            tasks.start_soon(traffic.live, CAST.living_names)
            for _ in range(KILLS):
                await CAST.advance(ledger)
                await anyio.to_thread.run_sync(kill, killable, server, victims)
            traffic.stop()
        # The clock of the notices runs from here: all parties have finished with what they had begun.
        notices = await read_notices(server, expected=ledger.transitions)

    CAST.check(traffic, killable, notices)
