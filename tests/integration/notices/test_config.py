"""The generated configuration on the real server: it is valid, and a reader can be added while it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.hivectl.nats_config import activate_reader, find_nats_server, shut_out_reader
from shared.errors import Unavailable
from shared.wire.notices import STREAM
from tests.integration.notices.parts import Parts, subjects, until
from tests.support.nats import NatsServer, barrier, nats_server
from tests.support.ports import free_port


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_server_takes_the_configuration(tmp_path: Path, count: int) -> None:
    readers = {f"reader-{number}_x": "password-" + "p" * 16 for number in range(count)}
    with nats_server(tmp_path / "a path with spaces", start=False, readers=readers) as server:
        done = subprocess.run(
            [find_nats_server(None), "-t", "-c", server.config],
            check=False,
            capture_output=True,
            text=True,
            timeout=10,
        )

    assert done.returncode == 0, done.stderr


async def test_a_reader_is_added_while_others_stay_connected(parts: Parts, server: NatsServer) -> None:
    heard: list[str] = []
    reloads: list[None] = []

    async def note(row: Msg) -> None:
        heard.append(row.subject)

    def reload() -> None:
        reloads.append(None)
        server.reload()

    async with server.reader() as (earlier, complaints):
        await earlier.subscribe("swarm.notices.>", cb=note)
        await barrier(earlier)
        server.readers["late"] = "late-" + "l" * 16
        server.write_config()

        await activate_reader(
            port=server.port, user=server.identity("late"), password=server.readers["late"], reload=reload
        )

        assert parts.bus.connected
        assert len(reloads) >= 2
        await parts.bus.ensure_reader(server.identity("late"))
        await parts.bus.publish(
            event_id="id-1", subject="swarm.notices.h1.ruth.started", payload=b"{}", request_id=None
        )
        async with server.reader("late") as (late, _):
            pull = await late.jetstream().pull_subscribe_bind(server.identity("late"), STREAM)
            assert subjects(await pull.fetch(1, timeout=5)) == ["swarm.notices.h1.ruth.started"]
            assert (await late.jetstream().get_msg(STREAM, 1, direct=True)).seq == 1
        await until(lambda: heard == ["swarm.notices.h1.ruth.started"])
        assert (earlier.stats["reconnects"], complaints) == (0, [])
        assert (await earlier.jetstream().stream_info(STREAM)).state.messages == 1


async def test_a_reader_is_shut_out_while_others_stay_connected(parts: Parts, server: NatsServer) -> None:
    password = server.readers.pop("other")

    def reload() -> bool:
        server.reload()
        return True

    async with server.reader() as (stays, complaints):
        await barrier(stays)
        server.write_config()

        await shut_out_reader(
            port=server.port, user=server.identity("other"), password=password, reload=reload
        )

        client = Client()
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            await client.connect(
                server.url, user=server.identity("other"), password=password, allow_reconnect=False
            )
        await client.close()
        assert parts.bus.connected
        assert (await stays.jetstream().stream_info(STREAM)).state.messages == 0
        assert (stays.stats["reconnects"], complaints) == (0, [])


async def test_who_is_let_in_in_spite_of_it_is_an_error_and_a_server_that_is_gone_lets_nobody_in(
    server: NatsServer,
) -> None:
    reader = {"port": server.port, "user": server.identity(), "password": server.readers["default"]}
    with anyio.fail_after(5), pytest.raises(Unavailable, match="still lets the reader h1-READER-default in"):
        await shut_out_reader(**reader, reload=lambda: True, within_seconds=0.3)  # type: ignore[arg-type]
    server.kill()
    with anyio.fail_after(5):
        await shut_out_reader(**reader, reload=lambda: False)  # type: ignore[arg-type]


async def test_a_reader_that_is_not_taken_in_is_an_error() -> None:
    with anyio.fail_after(5), pytest.raises(Unavailable, match="did not take in the reader h1-READER-x"):
        await activate_reader(
            port=free_port(), user="h1-READER-x", password="x" * 20, reload=lambda: None, within_seconds=0.3
        )
