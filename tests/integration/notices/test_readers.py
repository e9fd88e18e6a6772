"""What a reader's credential opens: live, durable, history; against a real server, with plain nats-py."""

from __future__ import annotations

import json

import anyio
import nats.js.errors
import pytest
from nats.aio.msg import Msg

from shared.wire.notices import STREAM
from tests.integration.notices.parts import Parts, publish, subjects
from tests.support.nats import NatsServer, barrier


@pytest.mark.requirement("notices.live")
@pytest.mark.parametrize("subject", ["swarm.notices.h1.>", "swarm.notices.>", "swarm.notices.*.ruth.*"])
async def test_a_live_subscription_sees_notices(parts: Parts, server: NatsServer, subject: str) -> None:
    async with server.reader() as (client, complaints):
        subscription = await client.subscribe(subject)
        await barrier(client)

        await publish(parts, "ruth")

        assert (await subscription.next_msg(5)).subject == "swarm.notices.h1.ruth.started"
    assert complaints == []


@pytest.mark.requirement("notices.durable")
async def test_the_durable_hands_out_what_came_while_it_was_away(parts: Parts, server: NatsServer) -> None:
    own = server.identity()
    await publish(parts, "a", "b", "c")
    async with server.reader() as (client, complaints):
        pull = await client.jetstream().pull_subscribe_bind(own, STREAM)
        first = await pull.fetch(2, timeout=5)
        for row in first:
            await row.ack_sync(timeout=5)
    async with server.reader() as (client, _):
        pull = await client.jetstream().pull_subscribe("swarm.notices.h1.>", durable=own, stream=STREAM)
        second = await pull.fetch(2, timeout=1)
        await second[0].ack_sync(timeout=5)
        info = await pull.consumer_info()

    assert subjects(first + second) == [f"swarm.notices.h1.{name}.started" for name in "abc"]
    assert [row.headers["Nats-Msg-Id"] for row in first + second if row.headers] == ["id-a", "id-b", "id-c"]
    assert (info.ack_floor and info.ack_floor.stream_seq, info.num_pending) == (3, 0)
    assert complaints == []


async def test_the_durable_is_found_by_subject_and_a_waiting_fetch_is_woken(
    parts: Parts, server: NatsServer
) -> None:
    got: list[Msg] = []
    async with server.reader() as (client, _):
        pull = await client.jetstream().pull_subscribe("swarm.notices.h1.>", durable=server.identity())

        async def fetch() -> None:
            got.extend(await pull.fetch(1, timeout=10))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fetch)
            await barrier(client)
            await publish(parts, "ruth")

    assert subjects(got) == ["swarm.notices.h1.ruth.started"]


@pytest.mark.requirement("notices.history")
async def test_history_is_read_by_direct_get(parts: Parts, server: NatsServer) -> None:
    await publish(parts, "a", "b")
    async with server.reader() as (client, complaints):
        stream = client.jetstream()
        by_sequence = await stream.get_msg(STREAM, 1, direct=True)
        by_subject = await stream.get_msg(STREAM, subject="swarm.notices.h1.b.started", direct=True)
        following = await stream.get_msg(STREAM, seq=2, subject="swarm.notices.h1.>", next=True, direct=True)
        with pytest.raises(nats.js.errors.NotFoundError):
            await stream.get_msg(STREAM, 3, direct=True)
        messages = (await stream.stream_info(STREAM)).state.messages

    assert [row.seq for row in (by_sequence, by_subject, following)] == [1, 2, 2]
    assert messages == 2
    assert complaints == []


async def test_a_batch_by_direct_get_has_all_its_answers(parts: Parts, server: NatsServer) -> None:
    names = [f"a{number}" for number in range(50)]
    await publish(parts, *names)
    async with server.reader() as (client, _):
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        question = json.dumps({"seq": 1, "batch": 50, "next_by_subj": "swarm.notices.>"})
        await client.publish(f"$JS.API.DIRECT.GET.{STREAM}", question.encode(), reply=inbox)
        rows = [await answers.next_msg(5) for _ in range(51)]

    found = [row.headers["Nats-Msg-Id"] for row in rows[:50] if row.headers]
    assert found == [f"id-{name}" for name in names]
    assert (rows[50].headers or {})["Status"] == "204"
