"""The broker's standing with a real nats-server: it comes late, goes, refuses, holds other limits."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio
import pytest
from nats.js import api
from structlog.testing import capture_logs

from services.broker.bus import NoticeBus
from services.broker.bus.link import REQUEST_SECONDS
from shared.errors import Conflict, HiveError, Unavailable
from shared.wire.notices import STREAM
from tests.integration.notices.parts import Parts, build_bus, running_bus, until
from tests.support.nats import NatsServer, nats_server

SUBJECT = "swarm.notices.h1.ruth.started"


async def publish(bus: NoticeBus, event_id: str = "id-1", **more: int) -> int:
    return await bus.publish(event_id=event_id, subject=SUBJECT, payload=b"{}", request_id="r-1", **more)


async def test_a_fresh_server_gets_the_stream_and_is_asked_whether_it_syncs(
    parts: Parts, server: NatsServer
) -> None:
    async with server.broker() as (client, _):
        config = (await client.jetstream().stream_info(STREAM)).config

    assert parts.bus.sync_always is True
    assert (config.max_age, config.max_bytes, config.duplicate_window) == (7 * 86400, 1 << 30, 3600)
    assert (config.deny_delete, config.deny_purge, config.allow_direct) == (True, True, True)
    assert config.storage == api.StorageType.FILE


async def test_a_notice_carries_id_type_and_request(parts: Parts, server: NatsServer) -> None:
    assert await publish(parts.bus) == 1

    async with server.reader() as (client, _):
        headers = (await client.jetstream().get_msg(STREAM, 1, direct=True)).headers or {}
    assert headers["Nats-Msg-Id"] == "id-1"
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert headers["X-Request-Id"] == "r-1"


async def test_a_second_copy_is_dropped_and_a_moved_subject_refused(parts: Parts) -> None:
    assert await publish(parts.bus) == 1
    assert await publish(parts.bus) == 1

    with pytest.raises(Conflict) as refused:
        await publish(parts.bus, "id-2", after_sequence=0)
    assert refused.value.code == "wrong_last_sequence"
    assert await publish(parts.bus, "id-2", after_sequence=1) == 2
    last = await parts.bus.find_last(SUBJECT)
    assert last is not None
    assert (last.sequence, last.event_id) == (2, "id-2")
    assert await parts.bus.find_last("swarm.notices.h1.nobody.started") is None


async def test_limits_of_a_shared_stream_are_raised_and_never_lowered(
    server: NatsServer, tmp_path: Path
) -> None:
    async with server.broker() as (client, _):
        await client.jetstream().add_stream(
            name=STREAM,
            subjects=["swarm.notices.>"],
            max_age=30 * 86400,
            max_bytes=1 << 20,
            duplicate_window=60,
            max_msgs=1_000_000,
        )
    async with running_bus(server, tmp_path) as parts:
        await parts.bus.wait_connected()

    async with server.broker() as (client, _):
        config = (await client.jetstream().stream_info(STREAM)).config
    assert (config.max_age, config.max_bytes, config.duplicate_window) == (30 * 86400, 1 << 30, 3600)
    assert (config.max_msgs, config.allow_direct) == (1_000_000, True)


async def test_a_consumer_keeps_its_position(parts: Parts, server: NatsServer) -> None:
    await publish(parts.bus)
    async with server.reader() as (client, _):
        pull = await client.jetstream().pull_subscribe_bind(server.identity(), STREAM)
        (row,) = await pull.fetch(1, timeout=5)
        await row.ack_sync(timeout=5)

        await parts.bus.ensure_reader(server.identity())

        assert (await pull.consumer_info()).num_pending == 0


async def test_a_server_that_comes_late_is_found(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", start=False) as server:
        async with running_bus(server, tmp_path) as parts:
            with pytest.raises(Unavailable):
                await publish(parts.bus)
            assert not parts.bus.connected

            await anyio.to_thread.run_sync(server.start)

            with anyio.fail_after(10):
                await parts.bus.wait_connected()
            assert await publish(parts.bus) == 1


async def test_a_kill_is_noticed_at_once_and_survived(parts: Parts, server: NatsServer) -> None:
    await publish(parts.bus)
    with capture_logs() as logs:
        server.kill()
        await until(lambda: not parts.bus.connected, within=5)
        with pytest.raises(Unavailable):
            await publish(parts.bus, "id-2")
        await until(lambda: len(logs) == 2)
        await anyio.to_thread.run_sync(server.start)
        with anyio.fail_after(10):
            await parts.bus.wait_connected()

    assert await publish(parts.bus, "id-2") == 2
    assert [line["event"] for line in logs] == ["nats_unavailable", "nats_unavailable", "nats_connected"]
    assert [line.get("reason") for line in logs[:2]] == ["connection lost", "NATS cannot be reached"]


async def test_a_request_under_way_ends_with_the_connection(parts: Parts, server: NatsServer) -> None:
    outcome: list[HiveError] = []
    ended = anyio.Event()

    async def attempt() -> None:
        try:
            await publish(parts.bus)
        except HiveError as exc:
            outcome.append(exc)
        ended.set()

    server.signal(signal.SIGSTOP)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attempt)
        await until(lambda: parts.bus._get_link()._waiting)
        server.kill()
        # Well below the time after which a request is given up by itself.
        with anyio.fail_after(REQUEST_SECONDS - 1):
            await ended.wait()
    assert [error.code for error in outcome] == ["outcome_unknown"]


async def test_a_refused_password_is_said_once_and_never_printed(server: NatsServer, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-password")
    with capture_logs() as logs:
        async with running_bus(server, tmp_path, nats_password_file=wrong) as parts:
            await until(lambda: "refuses the user broker" in str(logs))
            wrong.write_text(server.broker_password)
            with anyio.fail_after(10):
                await parts.bus.wait_connected()

    assert [line["event"] for line in logs if line["event"].startswith("nats")] == [
        "nats_unavailable",
        "nats_connected",
    ]
    assert "wrong-password" not in str(logs)


async def test_a_server_that_does_not_sync_is_reported(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", start=False) as server:
        text = server.config.read_text().replace("sync_interval: always", "sync_interval: 2m")
        server.config.write_text(text)
        server.start()
        with capture_logs() as logs:
            async with running_bus(server, tmp_path) as parts:
                await parts.bus.wait_connected()
                assert parts.bus.sync_always is False
    assert "nats_not_durable" in [line["event"] for line in logs]


async def test_without_a_system_user_durability_is_unknown(server: NatsServer, tmp_path: Path) -> None:
    none = {"nats_sys_user": None, "nats_sys_password_file": None}
    async with running_bus(server, tmp_path, **none) as parts:
        await parts.bus.wait_connected()

        assert parts.bus.sync_always is None
        assert await publish(parts.bus) == 1


async def test_a_stream_in_memory_is_not_published_to(server: NatsServer, tmp_path: Path) -> None:
    async with server.broker() as (client, _):
        await client.jetstream().add_stream(
            name=STREAM, subjects=["swarm.notices.>"], storage=api.StorageType.MEMORY
        )
    with capture_logs() as logs:
        async with running_bus(server, tmp_path) as parts:
            await until(lambda: "not kept in files" in str(logs))
            assert not parts.bus.connected


async def test_a_broker_without_nats_says_so_and_waits(server: NatsServer) -> None:
    bus = build_bus(server, nats_url=None)
    with anyio.fail_after(2):
        await bus.run()
    assert not bus.connected


async def test_who_waits_is_woken_after_any_number_of_failed_attempts(
    parts: Parts, server: NatsServer
) -> None:
    woken: list[str] = []

    async def wait(name: str) -> None:
        await parts.bus.wait_connected()
        woken.append(name)

    with capture_logs() as logs:
        server.kill()
        await until(lambda: not parts.bus.connected)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, "at once")
                await until(lambda: "cannot be reached" in str(logs))
                tasks.start_soon(wait, "later")
                await anyio.to_thread.run_sync(server.start)
    assert sorted(woken) == ["at once", "later"]
