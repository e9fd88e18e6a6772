"""What the driver saw reaches the broker: all of it, in order, over any outage."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.sender import BATCH, EventSender
from shared.errors import HiveError, InvalidInput, OutcomeUnknown, Unavailable
from shared.wire.lifecycle import DriverEventKind, DriverEvents

pytestmark = pytest.mark.anyio


class Receiver:
    """A broker that takes events, after it has answered with `failures`; agent 13 it never takes."""

    def __init__(self, *failures: HiveError) -> None:
        self.failures = list(failures)
        self.taken: list[int] = []
        self.drivers: set[str] = set()

    async def report(self, events: DriverEvents) -> None:
        if self.failures:
            raise self.failures.pop(0)
        agents = [event.agent_id for event in events.events]
        if 13 in agents:
            raise InvalidInput("no such agent")
        self.drivers.add(events.driver_id)
        self.taken += agents


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[EventSpool]:
    with closing(EventSpool(tmp_path / "spool.sqlite")) as opened:
        yield opened


async def send_all(spool: EventSpool, receiver: Receiver) -> None:
    sender = EventSender(spool, receiver, driver_id="driver-1")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.run)
            await sender.wait_empty()
            tasks.cancel_scope.cancel()


async def test_all_events_arrive_in_order_in_batches(spool: EventSpool) -> None:
    agents = list(range(100, 100 + 2 * BATCH + 5))
    for agent in agents:
        spool.append(DriverEventKind.STARTED, agent)
    receiver = Receiver()
    await send_all(spool, receiver)
    assert receiver.taken == agents
    assert receiver.drivers == {"driver-1"}
    assert spool.count() == 0


async def test_an_outage_delays_and_loses_nothing(spool: EventSpool) -> None:
    for agent in (1, 2, 3):
        spool.append(DriverEventKind.STARTED, agent)
    receiver = Receiver(Unavailable("down"), OutcomeUnknown("broke"), HiveError("a bug"))
    await send_all(spool, receiver)
    assert receiver.taken == [1, 2, 3]


async def test_an_event_that_is_refused_does_not_hold_up_the_others(spool: EventSpool) -> None:
    for agent in (1, 13, 2):
        spool.append(DriverEventKind.STARTED, agent)
    receiver = Receiver()
    await send_all(spool, receiver)
    assert receiver.taken == [1, 2]
    assert spool.count() == 0


async def test_what_comes_while_it_waits_is_sent_too(spool: EventSpool) -> None:
    receiver = Receiver()
    sender = EventSender(spool, receiver, driver_id="driver-1")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.run)
            await sender.wait_empty()
            for agent in (1, 2):
                spool.append(DriverEventKind.STARTED, agent)
                await sender.wait_empty()
            tasks.cancel_scope.cancel()
    assert receiver.taken == [1, 2]
