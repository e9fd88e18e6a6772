"""The control stream, as a daemon reads it."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from shared.client import BrokerClient
from shared.errors import (
    Conflict,
    HiveError,
    Unauthenticated,
    Unavailable,
)
from shared.wire.control import ControlEvent, GrantsPush, Hello, Ping
from tests.support.ports import free_port
from tests.unit.shared.client.talk import GRANTS, HELLO, SELF
from tests.unit.shared.scripted import (
    Heard,
    Step,
    answer,
    break_off,
    hang,
    lines,
    refuse,
    scripted,
)

pytestmark = pytest.mark.anyio


def event(name: str, **fields: Any) -> bytes:
    return json.dumps({"type": name, **fields}).encode() + b"\n"


PING = event("ping")


async def read(client: BrokerClient) -> list[ControlEvent]:
    async with aclosing(client.control(HELLO)) as events:
        return [one async for one in events]


async def test_control_events_come_one_by_one_however_they_are_cut(connect: Any) -> None:
    grants = event("grants", grants=GRANTS)
    step = lines(grants[:9], grants[9:] + PING + b"\n" + PING[:3], PING[3:], then=break_off)
    async with scripted(step) as broker:
        got = await read(connect(broker.url))

    assert [type(one) for one in got] == [GrantsPush, Ping, Ping]
    assert isinstance(got[0], GrantsPush)
    assert got[0].grants.version == 3
    assert Hello.model_validate_json(broker.heard[0].body) == HELLO


async def test_events_of_a_newer_broker_are_skipped(connect: Any) -> None:
    step = lines(event("dance"), b"nonsense\n", event("ping", mood="good"), then=break_off)
    async with scripted(step) as broker:
        got = await read(connect(broker.url))

    assert got == [Ping()]


@pytest.mark.parametrize("step", [lines(PING, then=hang), hang])
async def test_a_silent_stream_is_given_up(connect: Any, step: Step) -> None:
    async with scripted(step) as broker:
        with pytest.raises(Unavailable, match=r"said nothing for 0\.3 s"):
            await read(connect(broker.url, silence_seconds=0.3))


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (refuse(401, "unauthenticated"), Unauthenticated),
        (refuse(409, "conflict"), Conflict),
        (answer(404), Unavailable),
        (break_off, Unavailable),
    ],
)
async def test_a_stream_that_is_refused_raises_what_the_broker_said(
    connect: Any, step: Step, kind: type[HiveError]
) -> None:
    async with scripted(step) as broker:
        with pytest.raises(kind):
            await read(connect(broker.url))

    assert len(broker.heard) == 1


async def test_a_stream_to_nobody_is_unavailable(connect: Any) -> None:
    with pytest.raises(Unavailable, match="not reachable"):
        await read(connect(f"http://127.0.0.1:{free_port()}"))


async def test_leaving_a_stream_closes_its_connection(connect: Any) -> None:
    left = anyio.Event()

    async def until_left(stream: SocketStream, _heard: Heard) -> None:
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        left.set()
        raise anyio.EndOfStream

    async with scripted(lines(PING, then=until_left)) as broker:
        async with aclosing(connect(broker.url).control(HELLO)) as events:
            assert await events.__anext__() == Ping()
        await left.wait()


async def test_calls_go_on_beside_an_open_stream(connect: Any) -> None:
    async with scripted(lines(PING, then=hang), answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url, silence_seconds=5)
        async with aclosing(client.control(HELLO)) as events:
            await events.__anext__()
            assert (await client.self_info()).name == "iris"
