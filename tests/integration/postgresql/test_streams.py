"""Two brokers on one database: daemons and drivers at one feel what is done at the other, within a moment."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from shared.runtime.credential import hash_token, new_token
from tests.integration.broker.running import BOOTS, Broker, Peer
from tests.integration.lifecycle.driver import Driver
from tests.integration.postgresql.conftest import Pair

pytestmark = pytest.mark.database("postgresql")


async def see_units(broker: Broker, *units: str) -> None:
    """Wait until the broker knows these daemons of iris to be connected, wherever."""
    with anyio.fail_after(5):
        while (await broker.operator.get("GET", "/agents/iris"))["connected_units"] != list(units):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def report(peer: Peer, version: int, boot: str = BOOTS[0]) -> None:
    body = {"unit": "hyperhive", "boot": boot, "grants_version": version}
    await peer.get("POST", "/reports", body)


@pytest.mark.requirement("shared.streams")
async def test_grants_changed_at_one_reach_a_daemon_at_the_other(pair: Pair) -> None:
    async with pair.b.connect(pair.at_b("iris")) as stream:
        before = await stream.next_grants()
        await pair.a.permit("iris", add_groups=["forge"])
        after = await stream.next_grants()
    assert "forge" not in before["groups"]
    assert "forge" in after["groups"]


@pytest.mark.requirement("shared.streams")
@pytest.mark.parametrize("place", ["a", "b"])
async def test_a_change_is_confirmed_by_daemons_of_both(pair: Pair, place: str) -> None:
    """Also when a report goes to the broker that does not have the stream."""
    reporter = pair.at_a("iris") if place == "a" else pair.at_b("iris")
    async with pair.b.connect(pair.at_b("iris")) as stream:
        first = await stream.next_grants()
        await see_units(pair.a, "hyperhive")
        unconfirmed = await pair.a.permit("iris", add_groups=["forge"])
        await stream.next_grants()

        results: list[Any] = []

        async def change() -> None:
            results.append(await pair.a.permit("iris", remove_groups=["forge"]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            await report(reporter, (await stream.next_grants())["version"])

    assert unconfirmed == {"grants": unconfirmed["grants"], "confirmed": False}
    assert results[0]["confirmed"]
    assert results[0]["grants"]["version"] == first["version"] + 2


@pytest.mark.requirement("shared.streams", "wake.pushed")
async def test_mail_sent_at_one_is_told_to_a_daemon_at_the_other(pair: Pair) -> None:
    async with pair.b.connect(pair.at_b("iris")) as stream:
        assert await stream.next_pending() == 0
        row = await pair.at_a("ruth").send("iris")
        assert await stream.next_pending() == 1
        await pair.at_b("ruth").send("iris")
        assert await stream.next_pending() == 2
        await pair.at_a("iris").ack(row + 1)
        assert await stream.next_pending() == 0


async def test_a_daemon_counts_as_connected_wherever_it_is_until_it_leaves(pair: Pair) -> None:
    async with pair.b.connect(pair.at_b("iris")) as stream:
        await stream.next_grants()
        await see_units(pair.a, "hyperhive")
        assert (await pair.at_a("ruth").get("GET", "/meta?name=iris"))["running"]
        sent = await pair.at_a("ruth").get("POST", "/messages", {"to": "iris", "body": "x"})
        assert sent["sent"][0]["recipient_state"] == "running"
    await see_units(pair.a)


async def test_a_daemon_that_dials_the_other_broker_leaves_the_first(pair: Pair) -> None:
    async with pair.a.connect(pair.at_a("iris")) as earlier:
        await earlier.next_grants()
        await see_units(pair.b, "hyperhive")
        async with pair.b.connect(pair.at_b("iris")) as later:
            await later.next_grants()
            await earlier.drain()
            await see_units(pair.a, "hyperhive")
            await pair.a.permit("iris", add_groups=["forge"])
            assert "forge" in (await later.next_grants())["groups"]


async def test_an_earlier_start_is_refused_by_the_other_broker_too(pair: Pair) -> None:
    hello = {"unit": "hyperhive", "boot": BOOTS[0], "revision": "1"}
    async with pair.b.connect(pair.at_b("iris"), BOOTS[1]) as stream:
        await stream.next_grants()
        await see_units(pair.a, "hyperhive")
        error = await pair.at_a("iris").refused(409, "POST", "/control", hello)
    assert error["code"] == "boot_superseded"


@pytest.mark.requirement("shared.rights")
async def test_streams_end_at_the_other_broker_when_their_credential_does(pair: Pair) -> None:
    async with pair.b.connect(pair.at_b("iris")) as stream:
        await stream.next_grants()
        await pair.a.operator.get("POST", "/agents/iris/token", {"token_sha256": hash_token(new_token())})
        await pair.a.operator.get("DELETE", "/agents/iris/token/retiring")
        await stream.drain()


async def test_streams_of_a_destroyed_agent_end_at_the_other_broker(pair: Pair) -> None:
    async with pair.b.connect(pair.at_b("iris")) as stream:
        await stream.next_grants()
        await Driver(pair.a).saw("iris", "destroyed")
        await stream.drain()
    await pair.at_b("iris").refused(401, "GET", "/self")


@pytest.mark.requirement("shared.streams")
async def test_a_job_wakes_the_driver_that_waits_at_the_other_broker(pair: Pair) -> None:
    driver = Driver(pair.b)
    got: list[Any] = []

    async def claim() -> None:
        got.append(await driver.claim(wait_seconds=30))

    with anyio.fail_after(4):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            await wait_for_driver(pair.a)
            job = await pair.a.operator.get("POST", "/agents/iris/jobs", {"kind": "start"})
    assert got[0]["id"] == job["id"]


@pytest.mark.requirement("shared.streams")
async def test_the_end_of_a_job_is_heard_at_the_other_broker(pair: Pair) -> None:
    job = await pair.a.operator.get("POST", "/agents/iris/jobs", {"kind": "stop"})
    ended: list[Any] = []

    async def wait() -> None:
        ended.append(await pair.a.operator.get("GET", f"/jobs/{job['id']}?wait_seconds=30"))

    driver = Driver(pair.b)
    assert (await driver.claim()) is not None
    with anyio.fail_after(4):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await driver.saw("iris", "job_done", job_id=job["id"])
    assert ended[0]["state"] == "done"


@pytest.mark.requirement("shared.jobs")
async def test_jobs_are_claimed_once_over_both(pair: Pair) -> None:
    """One driver, whose polls go to either broker."""
    names = [f"agent-{number}" for number in range(6)]
    for name in names:
        await pair.a.add(name, parent="ruth")
        await pair.a.operator.get("POST", f"/agents/{name}/jobs", {"kind": "start"})
    at_a = Driver(pair.a)
    at_b = Driver(pair.b, at_a.driver_id)
    claimed: list[Any] = []

    async def claim(driver: Driver) -> None:
        while (job := await driver.claim()) is not None:
            claimed.append(job["agent"])

    async with anyio.create_task_group() as tasks:
        for driver in (at_a, at_b) * 2:
            tasks.start_soon(claim, driver)
    assert sorted(claimed) == names


async def test_a_later_driver_supersedes_the_earlier_at_the_other_broker(pair: Pair) -> None:
    earlier, later = Driver(pair.a), Driver(pair.b)
    await earlier.claim()
    await later.claim()
    error = await pair.a.operator.refused(409, "POST", "/driver/claim", earlier.claim_request())
    assert error["code"] == "driver_superseded"


async def wait_for_driver(broker: Broker) -> None:
    """Wait until the broker knows that a driver waits, at whichever broker."""
    with anyio.fail_after(5):
        while not (await broker.operator.get("GET", "/hive"))["driver_connected"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)
