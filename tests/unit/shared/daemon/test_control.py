"""The control link pauses as long as the broker asks, and ever longer for what comes to nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from shared.client import BrokerClient
from shared.daemon.control import MAX_RETRY_AFTER_SECONDS, ControlLink
from shared.errors import Unavailable
from shared.runtime.credential import TokenFile
from shared.runtime.files import write_private
from shared.runtime.ids import new_ulid
from shared.wire.control import Hello, Report
from tests.unit.shared.scripted import Step, answer, hang, lines, refuse, scripted

BOOT = new_ulid()
PING = b'{"type":"ping"}\n'


class Pauses:
    """Stands in for sleeping: notes how long, and lets a test wait for so many."""

    def __init__(self, wanted: int) -> None:
        self.seconds: list[float] = []
        self.enough = anyio.Event()
        self._wanted = wanted

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._wanted:
            self.enough.set()
            await anyio.sleep_forever()


async def nothing(*_: Any) -> None:
    pass


@asynccontextmanager
async def linked(
    tmp_path: Path,
    pauses: Pauses,
    *steps: Step,
    on_connect: Callable[[], Any] = nothing,
    on_ping: Callable[[], Any] = nothing,
) -> AsyncIterator[ControlLink]:
    """A link that dials a scripted broker."""
    write_private(tmp_path / "token", b"t" * 43)
    with anyio.fail_after(10):
        async with (
            scripted(*steps) as broker,
            BrokerClient(
                broker.url, TokenFile(tmp_path / "token"), unit="hyperhive", boot=BOOT, deadline_seconds=1
            ) as client,
            anyio.create_task_group() as tasks,
        ):
            link = ControlLink(
                client,
                hello=Hello(unit="hyperhive", boot=BOOT, revision="1.0"),
                on_grants=nothing,
                describe=lambda: Report(unit="hyperhive", boot=BOOT),
                on_connect=on_connect,
                on_ping=on_ping,
                sleep=pauses.sleep,
            )
            tasks.start_soon(link.run)
            yield link
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("limits.connects")
@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        (refuse(429, "connects_too_fast", retry_after_seconds=7), 7),
        (answer(429, {"code": "busy"}, headers={"Retry-After": "9"}), 9),
        (refuse(503, "unavailable", retry_after_seconds=10**6), MAX_RETRY_AFTER_SECONDS),
    ],
)
async def test_it_waits_as_long_as_the_broker_asks(tmp_path: Path, step: Step, seconds: float) -> None:
    pauses = Pauses(1)
    async with linked(tmp_path, pauses, step):
        await pauses.enough.wait()
    assert seconds < pauses.seconds[0] < seconds + 1


@pytest.mark.parametrize("wrong", ["soon", None, -5, "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_what_is_no_number_of_seconds_is_ignored(tmp_path: Path, wrong: Any) -> None:
    pauses = Pauses(1)
    step = answer(
        429,
        {"code": "busy", "details": {"retry_after_seconds": wrong}},
        headers={"Retry-After": str(wrong)},
    )
    async with linked(tmp_path, pauses, step):
        await pauses.enough.wait()
    assert pauses.seconds[0] < 1


async def test_a_stream_that_comes_to_nothing_each_time_is_dialled_ever_more_slowly(tmp_path: Path) -> None:
    pauses = Pauses(6)

    async def fail() -> None:
        raise Unavailable("the disk is full")

    steps = [step for _ in range(6) for step in (lines(PING, then=hang), answer(204))]
    async with linked(tmp_path, pauses, *steps, on_connect=fail):
        await pauses.enough.wait()
    assert pauses.seconds[5] > 10 * pauses.seconds[0]


async def test_each_ping_is_an_occasion(tmp_path: Path) -> None:
    thrice, count = anyio.Event(), 0

    async def note() -> None:
        nonlocal count
        count += 1
        if count == 3:
            thrice.set()

    async with linked(tmp_path, Pauses(9), lines(PING * 3, then=hang), answer(204), on_ping=note):
        await thrice.wait()
