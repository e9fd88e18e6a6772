"""From the outbox to the stream: every notice once and in order, whatever dies in between."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from services.broker.service.notices import Relay
from shared.runtime.log import request_id
from shared.wire.notices import CloudEvent, NoticeEvent
from tests.integration.notices.parts import EVENTS, Parts, read_stream, running_bus, until
from tests.support.deaf_link import deaf_link
from tests.support.nats import NatsServer, nats_server

# On each database.
pytestmark = pytest.mark.usefixtures("database_setting")


@asynccontextmanager
async def relaying(parts: Parts) -> AsyncIterator[None]:
    """Run the relay; it is cut off at the end of the block, as by a kill."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.relay.run)
        yield
        tasks.cancel_scope.cancel()


async def stored_ids(server: NatsServer) -> list[str]:
    async with server.reader() as (client, _):
        return [event_id for subject, event_id in await read_stream(client) if ".probe." not in subject]


@pytest.mark.requirement("notices.envelope")
async def test_a_notice_is_a_cloud_event(parts: Parts, server: NatsServer) -> None:
    request_id.set("r-7")
    async with relaying(parts):
        await parts.append(("ruth", NoticeEvent.STARTED))
        await parts.wait_relayed()

    async with server.reader() as (client, _):
        row = await client.jetstream().get_msg("SWARM_NOTICES", 1, direct=True)
    event = CloudEvent.model_validate_json(row.data or b"")
    assert row.subject == "swarm.notices.h1.ruth.started"
    assert json.loads(row.data or b"") == {
        "specversion": "1.0",
        "id": event.id,
        "source": "/hives/h1",
        "type": "hyperhive.agent.started.v1",
        "subject": "ruth",
        "time": "2027-01-15T08:00:00Z",
        "datacontenttype": "application/json",
        "data": {"agent_id": 1},
    }
    headers = row.headers or {}
    assert (headers["Nats-Msg-Id"], headers["X-Request-Id"]) == (event.id, "r-7")


async def test_what_was_rolled_back_is_not_published(parts: Parts, server: NatsServer) -> None:
    async with relaying(parts):
        with pytest.raises(RuntimeError):
            await parts.store.write(lambda tx: _append_and_fail(parts, tx))
        await parts.append(("ruth", NoticeEvent.STOPPED))
        await parts.wait_relayed()

    async with server.reader() as (client, _):
        assert [subject for subject, _ in await read_stream(client)] == ["swarm.notices.h1.ruth.stopped"]


def _append_and_fail(parts: Parts, tx: object) -> None:
    parts.writer.append(tx, agent="ruth", event=NoticeEvent.STARTED, data={})  # type: ignore[arg-type]
    raise RuntimeError("no")


async def test_notices_go_out_in_the_order_of_their_commits(parts: Parts, server: NatsServer) -> None:
    async with relaying(parts):
        for number in range(150):
            await parts.append((f"a{number % 7}", EVENTS[number % 3]), ("ruth", EVENTS[number % 3]))
        await parts.wait_relayed()

    async with server.reader() as (client, _):
        found = await read_stream(client)
    expected = [(f"a{number % 7}", EVENTS[number % 3]) for number in range(150)]
    assert [subject for subject, _ in found] == [
        f"swarm.notices.h1.{agent}.{event}" for name, event in expected for agent in (name, "ruth")
    ]
    assert len({event_id for _, event_id in found}) == 300


async def test_rows_of_an_earlier_broker_go_out_first(server: NatsServer, tmp_path: Path) -> None:
    async with running_bus(server, tmp_path) as earlier:
        await earlier.append(("a", NoticeEvent.STARTED), ("b", NoticeEvent.STARTED))
        waiting = await earlier.waiting()
    async with running_bus(server, tmp_path) as parts, relaying(parts):
        await parts.append(("c", NoticeEvent.STARTED))
        await parts.wait_relayed()

    assert (await stored_ids(server))[:2] == waiting
    assert len(await stored_ids(server)) == 3


async def test_a_server_killed_again_and_again_loses_doubles_and_reorders_none(
    parts: Parts, server: NatsServer
) -> None:
    expected: list[str] = []
    stop = anyio.Event()

    async def produce() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            await parts.append((f"a{number % 5}", EVENTS[number % 3]))
            expected.append(f"swarm.notices.h1.a{number % 5}.{EVENTS[number % 3]}")
            await anyio.lowlevel.checkpoint()

    async with relaying(parts):
        async with anyio.create_task_group() as producers:
            producers.start_soon(produce)
            for _ in range(4):
                seen = len(expected)
                await until(lambda seen=seen: len(expected) > seen + 40)  # type: ignore[misc]
                server.kill()
                await anyio.to_thread.run_sync(server.start)
                with anyio.fail_after(10):
                    await parts.bus.wait_connected()
            stop.set()
        await parts.wait_relayed(60)

    async with server.reader() as (client, _):
        found = await read_stream(client)
    assert [subject for subject, _ in found] == expected
    assert len({event_id for _, event_id in found}) == len(expected)


async def test_an_ack_that_was_lost_does_not_double(server: NatsServer, tmp_path: Path) -> None:
    async with (
        deaf_link(server.port) as link,
        running_bus(server, tmp_path, nats_url=f"nats://127.0.0.1:{link.port}") as parts,
        relaying(parts),
    ):
        await parts.append(("ruth", NoticeEvent.STARTED))
        await parts.wait_relayed()

        link.deaf = True
        await parts.append(("ruth", NoticeEvent.STOPPED), ("ruth", NoticeEvent.STARTED))
        waiting = await parts.waiting()
        with anyio.fail_after(5):
            await link.swallowed.wait()
        link.cut()
        link.deaf = False
        await parts.wait_relayed()

    ids = await stored_ids(server)
    assert ids[1:] == waiting
    assert len(ids) == 3


async def test_an_outage_longer_than_the_servers_memory_does_not_double(
    server: NatsServer, tmp_path: Path
) -> None:
    """The broker died between the ack and its commit, and the server has forgotten the id meanwhile."""
    async with server.broker() as (client, _):
        await client.jetstream().add_stream(
            name="SWARM_NOTICES", subjects=["swarm.notices.>"], duplicate_window=0.1, allow_direct=True
        )
        async with running_bus(server, tmp_path, nats_url=None) as earlier:
            await earlier.append(("ruth", NoticeEvent.STARTED), ("ruth", NoticeEvent.STOPPED))
            rows = await earlier.store.read(lambda tx: tx.outbox.list_oldest(2))
        stream = client.jetstream()
        for attempt in range(2):
            headers = {"Nats-Msg-Id": "other" if attempt == 0 else rows[0].event_id}
            await stream.publish(rows[0].subject, rows[0].payload.encode(), headers=headers)
        await _forget_ids(server)

    async with running_bus(server, tmp_path) as parts, relaying(parts):
        await parts.wait_relayed()

    assert await stored_ids(server) == ["other", rows[0].event_id, rows[1].event_id]


async def _forget_ids(server: NatsServer) -> None:
    """Wait until the server takes an id again that it had before."""
    async with server.broker() as (client, _):
        stream = client.jetstream()
        with anyio.fail_after(10):
            while True:
                probe = await stream.publish(
                    "swarm.notices.h1.probe.started", b"{}", headers={"Nats-Msg-Id": "p"}
                )
                if probe.seq and not probe.duplicate and probe.seq > 3:
                    return
                await anyio.sleep(0.1)


@pytest.mark.database("sqlite")
async def test_a_failure_to_remove_a_row_does_not_publish_it_again(parts: Parts, server: NatsServer) -> None:
    """As when the disk is full: the ack is there, the row stays."""
    await parts.append(("a", NoticeEvent.STARTED), ("b", NoticeEvent.STARTED))
    await parts.store.close()
    relay = Relay(parts.store, parts.bus)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run)
            await until(lambda: "relay_failed" in str(logs))
            await parts.store.open()
            with anyio.fail_after(10):
                while await parts.waiting():
                    await relay.drain(1)
            tasks.cancel_scope.cancel()

    assert len(await stored_ids(server)) == 2


async def test_draining_waits_for_the_last_notice_and_not_for_a_server_that_is_away(
    parts: Parts, server: NatsServer
) -> None:
    async with relaying(parts):
        await parts.append(*[(f"a{number}", NoticeEvent.STARTED) for number in range(50)])
        with anyio.fail_after(5):
            await parts.relay.drain(5)
        assert await parts.waiting() == []

        server.kill()
        await until(lambda: not parts.bus.connected)
        await parts.append(("ruth", NoticeEvent.STOPPED))
        with anyio.fail_after(1):
            await parts.relay.drain(60)
        assert len(await parts.waiting()) == 1


async def test_two_hives_share_one_stream(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as server:
        for hive in ("h1", "h2"):
            server.hive = hive
            server.write_config()
            server.reload()
            async with running_bus(server, tmp_path / hive_dir(tmp_path, hive)) as parts, relaying(parts):
                await parts.append(("ruth", NoticeEvent.STARTED))
                await parts.wait_relayed()
        async with server.broker() as (client, _):
            state = (await client.jetstream().stream_info("SWARM_NOTICES")).state
    assert state.messages == 2


def hive_dir(root: Path, hive: str) -> str:
    (root / hive).mkdir()
    return hive
