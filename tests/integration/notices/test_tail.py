"""What `hivectl notices tail` reads while the stream under it is lost, or replaced by an older copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from services.hivectl.bus import ReaderLogin, StoredNotice, subject_filter, tail
from shared.wire.notices import inbox_prefix_of
from tests.integration.notices.parts import Parts
from tests.support.nats import NatsServer

WITHIN = 20


async def publish(parts: Parts, *ids: str) -> None:
    for one in ids:
        body = json.dumps({"id": one}).encode()
        await parts.bus.publish(
            event_id=one, subject="swarm.notices.h1.ruth.started", payload=body, request_id=None
        )


def follow(server: NatsServer, *, from_start: bool) -> AsyncGenerator[StoredNotice]:
    identity = server.identity()
    login = ReaderLogin(server.url, identity, server.readers["default"], inbox_prefix_of(identity))
    return tail(
        login,
        subject=subject_filter(None),
        from_start=from_start,
        follow=True,
        on_away=lambda _: None,
    )


async def take(stream: AsyncGenerator[StoredNotice], count: int) -> list[str]:
    with anyio.fail_after(WITHIN):
        return [(await anext(stream)).event["id"] for _ in range(count)]


async def replace_store(parts: Parts, server: NatsServer, copy: Path | None) -> None:
    """As after a restore: the server comes up with an older store, or none."""
    await anyio.to_thread.run_sync(server.stop)
    store = server.directory / "store"
    shutil.rmtree(store)
    if copy is not None:
        shutil.copytree(copy, store)
    await anyio.to_thread.run_sync(server.start)
    with anyio.fail_after(WITHIN):
        await parts.bus.wait_connected()


@pytest.mark.requirement("notices.restored-stream")
@pytest.mark.parametrize("from_start", [True, False])
async def test_a_tail_goes_on_in_a_stream_that_was_made_anew(
    parts: Parts, server: NatsServer, from_start: bool
) -> None:
    await publish(parts, "a", "b", "c")
    async with aclosing(follow(server, from_start=from_start)) as stream:
        if from_start:
            assert await take(stream, 3) == ["a", "b", "c"]
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(publish_until_heard, parts, stream, tasks.cancel_scope)
        await replace_store(parts, server, None)
        # As many as there were, before it looks: the sequence alone would tell it nothing.
        await publish(parts, "w", "x", "y", "z")
        assert await take(stream, 4) == ["w", "x", "y", "z"]


@pytest.mark.requirement("notices.restored-stream")
async def test_a_tail_tells_nothing_twice_of_an_older_copy(
    parts: Parts, server: NatsServer, tmp_path: Path
) -> None:
    await publish(parts, "a", "b")
    await anyio.to_thread.run_sync(server.stop)
    shutil.copytree(server.directory / "store", tmp_path / "copy")
    await anyio.to_thread.run_sync(server.start)
    with anyio.fail_after(WITHIN):
        await parts.bus.wait_connected()
    await publish(parts, "c", "d", "e")
    async with aclosing(follow(server, from_start=True)) as stream:
        assert await take(stream, 5) == ["a", "b", "c", "d", "e"]

        await replace_store(parts, server, tmp_path / "copy")
        await publish(parts, "x")

        assert await take(stream, 1) == ["x"]


async def publish_until_heard(
    parts: Parts, stream: AsyncGenerator[StoredNotice], scope: anyio.CancelScope
) -> None:
    """A tail of what is new says nothing of where it begins: publish until something comes."""
    heard = anyio.Event()

    async def hear() -> None:
        await take(stream, 1)
        heard.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        number = 0
        while not heard.is_set():
            number += 1
            await publish(parts, f"first-{number}")
            with anyio.move_on_after(0.1):
                await heard.wait()
