"""Reads notices as a subscriber does: with the credential of `hive.json` and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from shared.wire.notices import STREAM
from tests.support.script import JsonObject

T = TypeVar("T")


class Heard(Generic[T]):
    """What has come so far, and a way to wait for more."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._news = anyio.Event()

    def add(self, item: T) -> None:
        """Note one, and wake who waits."""
        self.items.append(item)
        self._news.set()
        self._news = anyio.Event()

    async def until(self, enough: Callable[[list[T]], bool], *, within: float = 15) -> None:
        """Wait until `enough` of what has come.

        Raises:
            TimeoutError: with what came instead.
        """
        try:
            with anyio.fail_after(within):
                while not enough(self.items):
                    await self._news.wait()
        except TimeoutError as exc:
            raise TimeoutError(f"not within {within} s; heard {self.items}") from exc


@dataclass(frozen=True)
class Notice:
    """One notice as it came."""

    subject: str
    headers: dict[str, str]
    event: JsonObject

    @property
    def what(self) -> tuple[str, str]:
        """Agent and event."""
        _, _, _, agent, event = self.subject.split(".")
        return agent, event


def notice_of(subject: str, data: bytes | None, headers: dict[str, str] | None) -> Notice:
    """A notice from what NATS delivered."""
    return Notice(subject, dict(headers or {}), json.loads(data or b"{}"))


class Reader:
    """A connection of the reader named in `hive.json`."""

    def __init__(self, connection: Client, durable: str) -> None:
        self.connection = connection
        self.durable = durable
        self.refusals: Heard[str] = Heard()

    async def live(self) -> Heard[Notice]:
        """Subscribe; answers where what comes is noted."""
        heard: Heard[Notice] = Heard()

        async def take(message: Msg) -> None:
            heard.add(notice_of(message.subject, message.data, message.headers))

        await self.connection.subscribe("swarm.notices.>", cb=take)
        await self.connection.flush()
        return heard

    async def fetch(self, count: int) -> list[Notice]:
        """Up to `count` notices from the durable, acked: all that wait, and what comes within a second."""
        consumer = await self.connection.jetstream().pull_subscribe_bind(self.durable, STREAM)
        taken: list[Notice] = []
        while len(taken) < count:
            # A second is little on a busy machine: it may decide only where nothing waits.
            waiting = await _count_waiting(consumer)
            try:
                messages = await consumer.fetch(count - len(taken), timeout=10 if waiting else 1)
            except TimeoutError:
                assert not waiting, f"{waiting} notices wait and none comes"
                break
            for message in messages:
                taken.append(notice_of(message.subject, message.data, message.headers))
                await message.ack_sync(timeout=5)
        return taken

    async def history(self) -> list[Notice]:
        """Everything on the stream by direct get, from the start."""
        stream = self.connection.jetstream()
        found: list[Notice] = []
        number = 1
        while True:
            try:
                row = await stream.get_msg(
                    STREAM, seq=number, subject="swarm.notices.>", direct=True, next=True
                )
            except (NotFoundError, APIError):
                return found
            found.append(notice_of(row.subject or "", row.data, row.headers))
            number = (row.seq or number) + 1


async def _count_waiting(consumer: JetStreamContext.PullSubscription) -> int:
    """How many notices wait. While the server takes a grant in, nobody may answer (docs/notices.md)."""
    with anyio.fail_after(10):
        while True:
            try:
                return (await consumer.consumer_info()).num_pending or 0
            except ServiceUnavailableError:
                await anyio.sleep(0.05)


@asynccontextmanager
async def connected_reader(part: JsonObject) -> AsyncIterator[Reader]:
    """Connect by the `nats` part of `hive.json`."""
    connection = Client()
    reader = Reader(connection, part["durable"])

    async def note(error: Exception) -> None:
        reader.refusals.add(str(error))

    await connection.connect(
        part["url"],
        user=part["reader_user"],
        password=(await anyio.Path(part["reader_password_file"]).read_text()).strip(),
        inbox_prefix=part["inbox_prefix"],
        error_cb=note,
        max_reconnect_attempts=3,
        reconnect_time_wait=1,
    )
    try:
        yield reader
    finally:
        await connection.close()
