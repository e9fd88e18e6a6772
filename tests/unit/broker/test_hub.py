"""Control streams in memory: order, latest wins, confirmations."""

from __future__ import annotations

import anyio

from services.broker.service.hub import ControlHub
from services.broker.service.stream import ControlStream
from shared.wire.agents import Grants
from shared.wire.control import ControlEvent, GrantsPush, Hello, InboxPush, Ping

BOOT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
HELLO = Hello(unit="hyperhive", boot=BOOT, revision="1")


def grants(version: int) -> Grants:
    return Grants(groups=[], capabilities=[], version=version)


async def test_a_slow_reader_gets_only_the_latest_grants() -> None:
    stream = ControlStream(1, HELLO)
    for version in (1, 3, 2):
        stream.push(grants(version))
    events = stream.events()
    assert await anext(events) == GrantsPush(grants=grants(3))
    stream.close()
    assert [event async for event in events] == []


async def test_a_quiet_stream_is_pinged() -> None:
    stream = ControlStream(1, HELLO, ping_seconds=0)
    events = stream.events()
    assert await anext(events) == Ping()
    stream.push(grants(1))
    assert await anext(events) == GrantsPush(grants=grants(1))


async def test_that_mail_waits_is_told_at_once_and_how_much_now_and_then() -> None:
    stream = ControlStream(1, HELLO, count_seconds=60)
    heard: list[ControlEvent] = []

    async def listen() -> None:
        heard.extend([event async for event in stream.events()])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for pending in (0, 1, 2, 3, 0, 4):
                stream.push_inbox(pending)
                await anyio.wait_all_tasks_blocked()
            stream.close()

    assert heard == [InboxPush(pending=pending) for pending in (0, 1, 0, 4)]


async def test_how_much_mail_waits_is_told_when_the_pause_is_over() -> None:
    stream = ControlStream(1, HELLO, count_seconds=0.01)
    events = stream.events()
    stream.push_inbox(1)
    assert await anext(events) == InboxPush(pending=1)
    stream.push_inbox(2)
    stream.push_inbox(3)
    with anyio.fail_after(5):
        assert await anext(events) == InboxPush(pending=3)


async def test_a_confirmation_counts_from_the_same_start_only() -> None:
    hub = ControlHub()
    hub.add(ControlStream(1, HELLO))
    hub.confirm(1, "hyperhive", BOOT[:-1] + "0", 5)
    hub.confirm(1, "bash", BOOT, 5)
    assert not await hub.wait_confirmed(1, 5, seconds=0)
    hub.confirm(1, "hyperhive", BOOT, 6)
    assert await hub.wait_confirmed(1, 5, seconds=0)
    assert await hub.wait_confirmed(2, 5, seconds=0), "nobody is connected, so nobody is waited for"


async def test_a_daemon_that_leaves_is_not_waited_for() -> None:
    hub = ControlHub()
    stream = ControlStream(1, HELLO)
    hub.add(stream)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: hub.wait_confirmed(1, 5, seconds=60))
            await anyio.wait_all_tasks_blocked()
            hub.remove(stream)
    assert hub.list_connected() == frozenset()


async def test_the_end_of_a_replaced_stream_leaves_its_successor() -> None:
    hub = ControlHub()
    old, new = ControlStream(1, HELLO), ControlStream(1, HELLO)
    hub.add(old)
    hub.add(new)
    assert old.is_closed
    hub.remove(old)
    assert hub.list_units(1) == ["hyperhive"]
    hub.close()
    assert new.is_closed
