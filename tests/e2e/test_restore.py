"""After a restore from a backup: of an older database beside a newer stream, and the other way round."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from tests.support.lone_broker import LoneBroker, lone_broker
from tests.support.notices import Notice, connected_reader

TWICE = ("started", "stopped", "started", "stopped")


@pytest.fixture
def hive(tmp_path: Path) -> Iterator[LoneBroker]:
    with lone_broker(tmp_path) as running:
        yield running


def ids(notices: list[Notice]) -> list[str]:
    return [notice.event["id"] for notice in notices]


@pytest.mark.requirement("notices.restored-database")
async def test_what_an_older_database_holds_unpublished_is_not_published_again(hive: LoneBroker) -> None:
    """The copy is from an outage. Its notices went out since, others of the same subjects after them."""
    broker, server = hive.units.broker, hive.server
    server.kill()
    hive.saw("ruth", "started", "stopped")
    hive.saw("iris", "started")
    hive.stop_broker()
    hive.save(hive.database)
    server.start()
    broker.start()
    hive.wait_published()
    hive.saw("ruth", *TWICE)
    hive.saw("iris", "stopped", "started")
    hive.wait_published()
    before = await hive.published()
    hive.stop_broker()
    await hive.forget_ids()

    hive.restore(hive.database)
    broker.start()
    hive.saw("ruth", *TWICE)
    hive.saw("iris", "crashed", "started")
    hive.wait_published()

    after = await hive.published()
    assert ids(after[: len(before)]) == ids(before)
    assert len(before) == 9
    assert [notice.what for notice in after[len(before) :]] == [
        *(("ruth", event) for event in TWICE),
        ("iris", "crashed"),
        ("iris", "started"),
    ]
    assert len(set(ids(after))) == len(after)


@pytest.mark.requirement("notices.restored-stream")
async def test_a_stream_that_was_lost_is_made_anew_and_gets_all_that_is_new(hive: LoneBroker) -> None:
    hive.saw("ruth", *TWICE)
    hive.wait_published()
    async with connected_reader(hive.login()) as reader:
        assert len(await reader.fetch(2)) == 2
    hive.server.stop()
    hive.saw("ruth", "started")
    shutil.rmtree(hive.store)
    await anyio.to_thread.run_sync(hive.server.start)
    hive.saw("ruth", "stopped", "started")
    hive.wait_published()

    expected = [("ruth", event) for event in ("started", "stopped", "started")]
    assert [notice.what for notice in await hive.published()] == expected
    async with connected_reader(hive.login()) as reader:
        assert [notice.what for notice in await reader.fetch(10)] == expected


@pytest.mark.requirement("notices.restored-stream")
async def test_an_older_stream_goes_on_with_all_that_is_new(hive: LoneBroker) -> None:
    hive.saw("ruth", "started", "stopped")
    hive.wait_published()
    old = await hive.published()
    async with connected_reader(hive.login()) as reader:
        await reader.fetch(1)
    hive.server.stop()
    hive.save(hive.store)
    hive.server.start()
    hive.saw("ruth", *TWICE)
    hive.wait_published()
    hive.server.stop()
    hive.saw("iris", "started")
    hive.restore(hive.store)
    await anyio.to_thread.run_sync(hive.server.start)
    hive.saw("ruth", *TWICE)
    hive.wait_published()

    now = await hive.published()
    assert ids(now[:2]) == ids(old)
    new = [("iris", "started"), *(("ruth", event) for event in TWICE)]
    assert [notice.what for notice in now[2:]] == new
    async with connected_reader(hive.login()) as reader:
        # Its position is that of the copy, so that it misses nothing of what the stream holds.
        assert ids(await reader.fetch(100)) == ids(now[1:])
