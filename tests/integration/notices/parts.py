"""The broker's parts that notices go through, wired by the test, so that it can start each when it likes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.broker.bus import NoticeBus, build_login
from services.broker.migrations import upgrade_schema
from services.broker.service.notices import NoticeWriter, Relay
from services.broker.store import Store, Tx
from shared.wire.notices import STREAM, NoticeEvent
from tests.support.nats import NatsServer

EVENTS = (NoticeEvent.STARTED, NoticeEvent.STOPPED, NoticeEvent.CRASHED)


def build_bus(server: NatsServer, **changes: Any) -> NoticeBus:
    """A bus as the broker's settings would make it; `changes` are of those settings."""
    settings: dict[str, Any] = {**server.settings(), **changes}
    login = build_login(
        settings["nats_url"],
        user=settings["nats_user"],
        password_file=settings["nats_password_file"],
        sys_user=settings["nats_sys_user"],
        sys_password_file=settings["nats_sys_password_file"],
    )
    return NoticeBus(login, hive=server.hive)


@dataclass
class Parts:
    """Database, bus, relay; the relay runs only once it is started."""

    store: Store
    bus: NoticeBus
    relay: Relay
    writer: NoticeWriter
    tasks: anyio.abc.TaskGroup

    async def append(self, *events: tuple[str, NoticeEvent]) -> None:
        """Write notices into the outbox, in one transaction."""

        def work(tx: Tx) -> None:
            for agent, event in events:
                self.writer.append(tx, agent=agent, event=event, data={"agent_id": 1})

        await self.store.write(work)

    async def waiting(self) -> list[str]:
        """The ids of what is in the outbox, in order."""
        rows = await self.store.read(lambda tx: tx.outbox.list_oldest(100_000))
        return [row.event_id for row in rows]

    async def wait_relayed(self, seconds: float = 20) -> None:
        """Wait until the outbox is empty; fails when it is not in time."""
        with anyio.fail_after(seconds):
            while await self.waiting():
                await self.relay.drain(1)
                await anyio.sleep(0.02)


@asynccontextmanager
async def running_bus(server: NatsServer, directory: Path, **changes: Any) -> AsyncIterator[Parts]:
    """The parts on a database in `directory`, with the bus running. It need not be connected."""
    url = os.environ.get("HIVE_BROKER_DATABASE_URL") or f"sqlite:///{directory}/broker.sqlite"
    await anyio.to_thread.run_sync(upgrade_schema, url)
    store = Store(url)
    await store.open()
    bus = build_bus(server, **changes)
    relay = Relay(store, bus)
    writer = NoticeWriter(server.hive, clock=lambda: 1_800_000_000, on_commit=relay.wake)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.run)
            yield Parts(store, bus, relay, writer, tasks)
            tasks.cancel_scope.cancel()
    finally:
        await store.close()


async def until(condition: Callable[[], object], *, within: float = 10) -> None:
    """Wait until `condition` holds, for what announces itself by no event; fails when it does not in time."""
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def read_stream(client: Client) -> list[tuple[str, str]]:
    """Everything in the stream by direct get from its start: subject and `Nats-Msg-Id`."""
    stream = client.jetstream()
    found = []
    state = (await stream.stream_info(STREAM)).state
    for sequence in range(state.first_seq or 1, state.last_seq + 1):
        row = await stream.get_msg(STREAM, sequence, direct=True)
        found.append((str(row.subject), (row.headers or {})["Nats-Msg-Id"]))
    return found


async def publish(parts: Parts, *agents: str) -> None:
    """Publish a `started` of each agent; its id is `id-` and the name."""
    for agent in agents:
        subject = f"swarm.notices.h1.{agent}.started"
        await parts.bus.publish(event_id=f"id-{agent}", subject=subject, payload=b"{}", request_id=None)


def subjects(rows: Iterable[Msg]) -> list[str]:
    return [row.subject for row in rows]
