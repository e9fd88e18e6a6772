"""What no credential but the right one opens, and what the broker's own does not; against a real server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from shared.wire.notices import STREAM
from tests.integration.notices.parts import Parts, publish, subjects
from tests.support.nats import NatsServer, barrier

OTHERS_INBOX = "_INBOX_h1-READER-other.stolen"
DELETE_NOTICE = f"$JS.API.STREAM.MSG.DELETE.{STREAM}"
FORGED = "swarm.notices.h1.ruth.forged"

Attempt = Callable[[JetStreamContext, str], Awaitable[object]]

DENIED: dict[str, Attempt] = {
    "publish a notice": lambda js, _: js.publish(FORGED, b"{}"),
    "publish to another hive": lambda js, _: js.publish("swarm.notices.h2.ruth.started", b"{}"),
    "publish a command": lambda js, _: js.publish("hive.command", b"{}"),
    "create a stream": lambda js, _: js.add_stream(name="MINE", subjects=["mine.>"]),
    "create a stream over the notices": lambda js, _: js.add_stream(
        name="MINE", subjects=["swarm.notices.>"]
    ),
    "update the stream": lambda js, _: js.update_stream(name=STREAM, subjects=["swarm.notices.>", "mine.>"]),
    "delete the stream": lambda js, _: js.delete_stream(STREAM),
    "purge the stream": lambda js, _: js.purge_stream(STREAM),
    # By hand, because `delete_msg` waits longer than it is told.
    "delete a notice": lambda js, _: js._api_request(DELETE_NOTICE, b'{"seq": 1}', timeout=0.3),
    "create a durable": lambda js, _: js.add_consumer(STREAM, durable_name="mine"),
    "create a named consumer": lambda js, _: js.add_consumer(STREAM, name="mine"),
    "have notices pushed to another": lambda js, _: js.add_consumer(STREAM, deliver_subject=OTHERS_INBOX),
    "change its own durable": lambda js, own: js.add_consumer(
        STREAM, name=own, durable_name=own, max_deliver=1
    ),
    "delete its own durable": lambda js, own: js.delete_consumer(STREAM, own),
    "delete another's durable": lambda js, _: js.delete_consumer(STREAM, "h1-READER-other"),
    "reset another's durable": lambda js, _: js.reset_consumer(STREAM, "h1-READER-other"),
    "pause another's durable": lambda js, _: js.pause_consumer(
        STREAM, "h1-READER-other", "2999-01-01T00:00:00Z"
    ),
    "look at another's durable": lambda js, _: js.consumer_info(STREAM, "h1-READER-other"),
    "list consumers": lambda js, _: js.consumers_info(STREAM),
    "read without direct get": lambda js, _: js.get_msg(STREAM, 1),
}


async def get_last_sequence(server: NatsServer) -> int:
    async with server.broker() as (client, _):
        return int((await client.jetstream().stream_info(STREAM)).state.last_seq)


@pytest.mark.requirement("notices.read-only")
@pytest.mark.parametrize("name", DENIED)
async def test_a_reader_cannot(parts: Parts, server: NatsServer, name: str) -> None:
    await publish(parts, "ruth")
    async with server.broker() as (broker, _):
        before = await broker.jetstream().consumer_info(STREAM, "h1-READER-other")
    async with server.reader() as (client, complaints):
        with pytest.raises(nats.errors.TimeoutError):
            await DENIED[name](client.jetstream(timeout=0.3), server.identity())

    assert complaints
    assert "permissions violation" in complaints[0]
    async with server.broker() as (broker, _):
        info = await broker.jetstream().stream_info(STREAM)
        after = await broker.jetstream().consumer_info(STREAM, "h1-READER-other")
    assert (info.state.messages, info.state.last_seq, info.config.subjects) == (1, 1, ["swarm.notices.>"])
    assert info.state.consumer_count == 2
    assert (after.config, after.delivered, after.paused) == (before.config, before.delivered, before.paused)


@pytest.mark.requirement("notices.apart")
@pytest.mark.parametrize("subject", [">", "*.>", "_INBOX_h1-READER-other.>", "_INBOX.>", "$JS.>", "$SYS.>"])
async def test_a_reader_cannot_listen_to(parts: Parts, server: NatsServer, subject: str) -> None:
    async with server.reader() as (client, complaints):
        await client.subscribe(subject)
        with anyio.fail_after(5):
            while not complaints:
                await client.flush()

    assert "permissions violation for subscription" in complaints[0]


@pytest.mark.requirement("notices.apart")
async def test_a_reader_cannot_take_from_anothers_durable(parts: Parts, server: NatsServer) -> None:
    await publish(parts, "ruth")
    async with server.reader() as (client, complaints):
        pull = await client.jetstream().pull_subscribe_bind("h1-READER-other", STREAM)
        with pytest.raises(nats.errors.TimeoutError):
            await pull.fetch(1, timeout=0.3)
        await client.publish(f"$JS.ACK.{STREAM}.h1-READER-other.1.1.1.1.0", b"")
        await barrier(client)
    assert len(complaints) == 2

    async with server.reader("other") as (other, _):
        pull = await other.jetstream().pull_subscribe_bind("h1-READER-other", STREAM)
        assert subjects(await pull.fetch(1, timeout=5)) == ["swarm.notices.h1.ruth.started"]


REQUESTS = {
    "direct get": (f"$JS.API.DIRECT.GET.{STREAM}", b'{"seq": 1}'),
    "direct get by subject": (f"$JS.API.DIRECT.GET.{STREAM}.swarm.notices.h1.ruth.started", b""),
    "batch": (f"$JS.API.DIRECT.GET.{STREAM}", b'{"seq": 1, "batch": 9, "next_by_subj": "swarm.notices.>"}'),
    "next of its durable": (f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.h1-READER-default", b"1"),
    "look at its durable": (f"$JS.API.CONSUMER.INFO.{STREAM}.h1-READER-default", b""),
    "look at the stream": (f"$JS.API.STREAM.INFO.{STREAM}", b""),
    "names of streams": ("$JS.API.STREAM.NAMES", b""),
}
TARGETS = {
    "a notice": FORGED,
    "another's inbox": OTHERS_INBOX,
    "the broker's inbox": "_INBOX_broker.x",
    "an API of JetStream": f"$JS.API.CONSUMER.DELETE.{STREAM}.h1-READER-other",
    "another API of JetStream": f"$JS.API.STREAM.PURGE.{STREAM}",
}


@pytest.mark.requirement("notices.read-only")
@pytest.mark.requirement("notices.apart")
@pytest.mark.parametrize("target", TARGETS)
async def test_no_answer_can_be_sent_to(parts: Parts, server: NatsServer, target: str) -> None:
    """The reply subject is the reader's to choose, and no permission of its limits the answers."""
    await publish(parts, "ruth")
    heard: list[Any] = []

    async def note(row: Msg) -> None:
        heard.append((row.subject, row.data))

    async with (
        server.reader() as (client, _),
        server.reader("other") as (other, _),
        server.broker() as (broker, _),
    ):
        await client.subscribe("swarm.notices.>", cb=note)
        await other.subscribe("_INBOX_h1-READER-other.>", cb=note)
        await other.subscribe("swarm.notices.>", cb=note)
        await broker.subscribe("_INBOX_broker.x", cb=note)
        for one in (client, other, broker):
            await barrier(one)

        for subject, payload in REQUESTS.values():
            await client.publish(subject, payload, reply=TARGETS[target])
        # An answer to a later request on the same connection: all before it have been dealt with.
        await client.jetstream().get_msg(STREAM, 1, direct=True)
        for one in (client, other, broker):
            await barrier(one)
        consumers = (await broker.jetstream().stream_info(STREAM)).state.consumer_count

    assert heard == []
    assert await get_last_sequence(server) == 1
    assert consumers == 2


async def test_the_next_of_an_ack_cannot_be_sent_elsewhere(parts: Parts, server: NatsServer) -> None:
    await publish(parts, "a", "b", "c")
    heard: list[str] = []

    async def note(row: Msg) -> None:
        heard.append(row.subject)

    async with server.reader() as (client, _), server.reader("other") as (other, _):
        await other.subscribe("_INBOX_h1-READER-other.>", cb=note)
        await barrier(other)
        pull = await client.jetstream().pull_subscribe_bind(server.identity(), STREAM)
        (row,) = await pull.fetch(1, timeout=5)

        await client.publish(row.reply, b"+NXT", reply=OTHERS_INBOX)
        await client.publish(row.reply, b"+NXT", reply=FORGED)
        await client.jetstream().stream_info(STREAM)
        await barrier(other)

    assert heard == []
    assert await get_last_sequence(server) == 3


async def test_a_reader_cannot_ask_the_server_itself(parts: Parts, server: NatsServer) -> None:
    async with server.reader() as (client, complaints):
        with pytest.raises(nats.errors.TimeoutError):
            await client.request("$SYS.REQ.SERVER.PING.VARZ", b"", timeout=0.3)

    assert "permissions violation" in complaints[0]


async def test_nobody_gets_in_without_a_credential(server: NatsServer) -> None:
    for user, password in ((None, None), ("default", "x"), (server.identity(), "wrong"), ("broker", "")):
        client = Client()
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            await client.connect(server.url, user=user, password=password, allow_reconnect=False)
        await client.close()


BROKER_DENIED: dict[str, Callable[[Client], Awaitable[object]]] = {
    "publish for another hive": lambda c: c.jetstream(timeout=0.3).publish("swarm.notices.h2.a.started", b""),
    "publish elsewhere": lambda c: c.jetstream(timeout=0.3).publish("hive.command", b""),
    "delete the stream": lambda c: c.jetstream(timeout=0.3).delete_stream(STREAM),
    "purge the stream": lambda c: c.jetstream(timeout=0.3).purge_stream(STREAM),
    "create another stream": lambda c: c.jetstream(timeout=0.3).add_stream(name="X", subjects=["x"]),
    "push notices": lambda c: c.jetstream(timeout=0.3).add_consumer(STREAM, deliver_subject="hive.command"),
}


@pytest.mark.parametrize("name", BROKER_DENIED)
async def test_even_the_broker_cannot(parts: Parts, server: NatsServer, name: str) -> None:
    async with server.broker() as (client, complaints):
        with pytest.raises(nats.errors.TimeoutError):
            await BROKER_DENIED[name](client)

    assert "permissions violation" in complaints[0]


async def test_the_broker_listens_to_nothing(parts: Parts, server: NatsServer) -> None:
    async with server.broker() as (client, complaints):
        await client.subscribe("swarm.notices.>")
        with anyio.fail_after(5):
            while not complaints:
                await client.flush()

    assert "permissions violation for subscription" in complaints[0]
