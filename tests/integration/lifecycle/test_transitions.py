"""What a driver's events do: state, notices, messages to root; each event once, whatever is sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from shared.wire.notices import STREAM
from tests.integration.broker.running import BOOTS, Broker, running_broker
from tests.integration.lifecycle.driver import Driver, event
from tests.support.nats import NatsServer, barrier


async def notices(broker: Broker, server: NatsServer) -> list[dict[str, Any]]:
    """Everything in the stream, once all that was committed is there."""
    with anyio.fail_after(10):
        while (await broker.operator.get("GET", "/hive"))["notices_waiting"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    found = []
    async with server.reader() as (client, _):
        stream = client.jetstream()
        for sequence in range(1, (await stream.stream_info(STREAM)).state.last_seq + 1):
            row = await stream.get_msg(STREAM, sequence, direct=True)
            body = json.loads(row.data or b"")
            assert row.subject == f"swarm.notices.h1.{body['subject']}.{body['type'].split('.')[2]}"
            found.append(body)
    return found


def brief(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["subject"], one["type"].split(".")[2]) for one in found]


async def read_inbox(broker: Broker, agent: str) -> list[dict[str, Any]]:
    page = await broker.operator.get("GET", f"/agents/{agent}/inbox")
    return [{**row, "body": json.loads(row["body"])} for row in page["messages"]]


@pytest.mark.requirement("notices.live")
@pytest.mark.requirement("notices.durable")
@pytest.mark.requirement("notices.history")
async def test_each_transition_is_one_notice_for_every_kind_of_reader(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    expected = ["started", "stopped", "started", "killed", "started", "crashed", "started", "destroyed"]
    await broker.operator.get("POST", "/notice-readers", {"name": "default"})
    async with server.reader() as (client, _):
        subscription = await client.subscribe("swarm.notices.h1.iris.*")
        await barrier(client)

        await driver.perform("iris", "start", "started")
        await driver.perform("iris", "stop", "stopped")
        await driver.perform("iris", "start", "started")
        await driver.perform("iris", "kill", "killed")
        await driver.perform("iris", "start", "started")
        await driver.saw("iris", "crashed", exit_code=1)
        await driver.saw("iris", "started")
        await driver.perform("iris", "destroy", "destroyed")

        live = [(await subscription.next_msg(5)).subject.split(".")[-1] for _ in expected]
    async with server.reader() as (client, _):
        pull = await client.jetstream().pull_subscribe_bind(server.identity(), STREAM)
        offline = [row.subject.split(".")[-1] for row in await pull.fetch(len(expected), timeout=5)]

    assert live == expected
    assert offline == expected
    assert [kind for _, kind in brief(await notices(broker, server))] == expected


async def test_a_notice_tells_of_the_agents_life_and_of_the_exit(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    iris = await broker.operator.get("GET", "/agents/iris")
    await driver.report(event(iris["id"], "started", at=1_799_999_990))
    for exit_ in ({"exit_code": 3}, {"exit_signal": 9}, {}):
        await driver.report(event(iris["id"], "crashed", **exit_), event(iris["id"], "started"))

    found = await notices(broker, server)
    assert (found[0]["time"], found[0]["data"]) == ("2027-01-15T07:59:50Z", {"agent_id": iris["id"]})
    crashed = [one["data"] for one in found if "crashed" in one["type"]]
    assert crashed == [
        {"agent_id": iris["id"], "exit": {"code": 3}},
        {"agent_id": iris["id"], "exit": {"signal": 9}},
        {"agent_id": iris["id"]},
    ]


@pytest.mark.requirement("notices.crash-message")
@pytest.mark.parametrize("agent", ["iris", "ruth"])
async def test_a_crash_is_told_to_the_root_agent(broker: Broker, driver: Driver, agent: str) -> None:
    await driver.saw(agent, "started")
    await driver.saw(agent, "crashed", exit_signal=11, at=1_800_000_050)
    await driver.saw(agent, "started")
    await driver.saw(agent, "crashed", at=1_800_000_060)

    rows = await read_inbox(broker, "ruth")
    assert [row["body"] for row in rows] == [
        {"event": "ContainerCrash", "agent": agent, "at": 1_800_000_050, "exit": {"signal": 11}},
        {"event": "ContainerCrash", "agent": agent, "at": 1_800_000_060},
    ]
    assert {(row["sender"], row["recipient"], row["state"]) for row in rows} == {
        ("system", "ruth", "pending")
    }
    assert await read_inbox(broker, "iris") == []


async def test_a_full_inbox_keeps_no_crash_out(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        await broker.add("ruth")
        driver = Driver(broker)
        await broker.operator.get("POST", "/messages", {"to": "ruth", "body": "hello"})
        await driver.saw("ruth", "started")
        await driver.saw("ruth", "crashed")

        assert (await broker.operator.get("GET", "/agents/ruth/inbox"))["pending"] == 2


async def test_what_is_sent_again_changes_nothing(broker: Broker, driver: Driver, server: NatsServer) -> None:
    await driver.saw("iris", "started")
    await driver.saw("iris", "crashed", exit_code=1)
    await driver.saw("iris", "started")

    await broker.operator.get("POST", "/driver/events", driver.events_request(*driver.reported))
    await broker.operator.get("POST", "/driver/events", driver.events_request(*driver.reported * 2))

    assert brief(await notices(broker, server)) == [
        ("iris", "started"),
        ("iris", "crashed"),
        ("iris", "started"),
    ]
    assert len(await read_inbox(broker, "ruth")) == 1
    assert (await broker.operator.get("GET", "/agents/iris"))["running"] is True


async def test_what_changes_nothing_gives_no_notice(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    for kind in ("stopped", "killed", "crashed", "started", "started"):
        await driver.saw("iris", kind)

    assert brief(await notices(broker, server)) == [("iris", "started")]
    assert await read_inbox(broker, "ruth") == []


async def test_events_of_a_request_are_applied_together_or_not_at_all(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    iris = await broker.operator.get("GET", "/agents/iris")
    good, bad = event(iris["id"], "started"), event(iris["id"], "exploded")

    await broker.operator.refused(422, "POST", "/driver/events", driver.events_request(good, bad))

    assert (await broker.operator.get("GET", "/agents/iris"))["running"] is False
    assert await notices(broker, server) == []


async def test_a_destroyed_agent_is_gone_at_once(broker: Broker, driver: Driver, server: NatsServer) -> None:
    old = broker.agents["iris"]
    before = await broker.operator.get("GET", "/agents/iris")
    await broker.add("milo", parent="iris")
    await driver.saw("iris", "started")
    async with broker.connect(old) as stream:
        await stream.next_grants()
        job = await driver.perform("iris", "destroy", "destroyed")
        await stream.drain()

    assert (job["state"], job["agent"]) == ("done", "iris")
    assert await old.refused(401, "GET", "/self")
    await broker.operator.refused(404, "GET", "/agents/iris")
    assert (await broker.operator.get("GET", "/agents/milo"))["parent"] == "ruth"
    await broker.add("iris", parent="ruth")
    after = await broker.operator.get("GET", "/agents/iris")
    assert after["port_block"] == before["port_block"]
    assert after["id"] > before["id"]
    assert brief(await notices(broker, server)) == [("iris", "started"), ("iris", "destroyed")]


async def test_late_events_of_a_destroyed_agent_do_not_touch_its_successor(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    before = await broker.operator.get("GET", "/agents/iris")
    await driver.saw("iris", "destroyed")
    await broker.add("iris", parent="ruth")
    for kind in ("started", "crashed", "destroyed"):
        await driver.report(event(before["id"], kind), event(10_000, kind))

    assert (await broker.operator.get("GET", "/agents/iris"))["running"] is False
    assert brief(await notices(broker, server)) == [("iris", "destroyed")]
    assert await read_inbox(broker, "ruth") == []


async def test_a_destroy_ends_all_other_jobs_of_the_agent(broker: Broker, driver: Driver) -> None:
    jobs = [
        await broker.operator.get("POST", "/agents/iris/jobs", {"kind": kind}) for kind in ("stop", "destroy")
    ]
    await driver.saw("iris", "destroyed")

    ended = [await broker.operator.get("GET", f"/jobs/{job['id']}") for job in jobs]
    assert [(job["state"], job["error"]) for job in ended] == [
        ("failed", "iris was destroyed"),
        ("done", None),
    ]
    assert await driver.claim() is None


async def test_a_new_revision_is_a_notice(broker: Broker, server: NatsServer) -> None:
    iris = broker.agents["iris"]
    for boot, revision in zip(BOOTS, ("1.0", "1.0", "1.1"), strict=False):
        async with broker.connect(iris, boot, revision=revision) as stream:
            await stream.next_grants()

    (notice,) = await notices(broker, server)
    assert notice["type"] == "hyperhive.agent.revision_changed.v1"
    agent_id = (await broker.operator.get("GET", "/agents/iris"))["id"]
    assert notice["data"] == {"agent_id": agent_id, "from": "1.0", "to": "1.1"}


async def test_what_happens_while_nats_is_away_goes_out_later(
    broker: Broker, driver: Driver, server: NatsServer
) -> None:
    await anyio.to_thread.run_sync(server.kill)
    await driver.saw("iris", "started")
    await driver.saw("iris", "stopped")
    hive = await broker.operator.get("GET", "/hive")
    assert hive["notices_waiting"] == 2
    await anyio.to_thread.run_sync(server.start)

    assert brief(await notices(broker, server)) == [("iris", "started"), ("iris", "stopped")]
    hive = await broker.operator.get("GET", "/hive")
    assert (hive["nats_connected"], hive["nats_sync_always"], hive["notices_waiting"]) == (True, True, 0)


async def test_notices_of_an_earlier_broker_go_out_with_the_next(server: NatsServer, tmp_path: Path) -> None:
    server.kill()
    async with running_broker(tmp_path / "hive", **server.settings()) as broker:
        await broker.add("ruth")
        await Driver(broker).saw("ruth", "started")
    await anyio.to_thread.run_sync(server.start)
    async with running_broker(tmp_path / "hive", **server.settings()) as broker:
        await Driver(broker).saw("ruth", "stopped")

        assert brief(await notices(broker, server)) == [("ruth", "started"), ("ruth", "stopped")]


async def test_a_stop_of_the_broker_lets_the_last_notices_out(server: NatsServer, tmp_path: Path) -> None:
    async with running_broker(tmp_path / "hive", **server.settings()) as broker:
        await broker.add("ruth")
        driver = Driver(broker)
        with anyio.fail_after(10):
            while not (await broker.operator.get("GET", "/hive"))["nats_connected"]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        for _ in range(20):
            await driver.saw("ruth", "started")
            await driver.saw("ruth", "stopped")

    async with server.reader() as (client, _):
        assert (await client.jetstream().stream_info(STREAM)).state.messages == 40


def boot_at(seconds: int) -> str:
    """The ULID of a start at that time."""
    digits, number = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", seconds * 1_000
    return "".join(digits[number >> shift & 31] for shift in range(45, -1, -5)) + "0" * 16


async def report_turn(broker: Broker, boot: str) -> None:
    report = {"unit": "hyperhive", "boot": boot, "turn_state": "Idle"}
    await broker.agents["iris"].get("POST", "/reports", report)


async def show(broker: Broker) -> tuple[bool, str | None]:
    shown = await broker.operator.get("GET", "/agents/iris")
    return shown["running"], shown["turn_state"]


@pytest.mark.parametrize("kind", ["crashed", "stopped", "killed"])
@pytest.mark.parametrize("after", [0, 1, 600], ids="started {} s later".format)
async def test_the_end_of_an_earlier_life_told_late_leaves_the_later_one_its_turn(
    broker: Broker, driver: Driver, kind: str, after: int
) -> None:
    ended_at = broker.clock.now
    await driver.saw("iris", "started", at=ended_at - 5)
    broker.clock.now += after
    boot = boot_at(ended_at + after)
    async with broker.connect(broker.agents["iris"], boot) as stream:
        await stream.next_grants()
        await report_turn(broker, boot)

        await driver.saw("iris", kind, at=ended_at)

        assert await show(broker) == (True, "Idle")
        await driver.saw("iris", "started", at=ended_at + after)
        assert await show(broker) == (True, "Idle")


@pytest.mark.parametrize("kind", ["crashed", "stopped", "killed"])
async def test_the_end_of_this_life_ends_its_turn_also_before_its_stream_does(
    broker: Broker, driver: Driver, kind: str
) -> None:
    boot = boot_at(broker.clock.now)
    await driver.saw("iris", "started", at=broker.clock.now)
    async with broker.connect(broker.agents["iris"], boot) as stream:
        await stream.next_grants()
        await report_turn(broker, boot)

        await driver.saw("iris", kind, at=broker.clock.now + 1)

        assert await show(broker) == (True, None)


async def test_a_life_of_less_than_a_second_leaves_no_turn(broker: Broker, driver: Driver) -> None:
    boot = boot_at(broker.clock.now)
    await driver.saw("iris", "started", at=broker.clock.now)
    async with broker.connect(broker.agents["iris"], boot) as stream:
        await stream.next_grants()
        await report_turn(broker, boot)
    with anyio.fail_after(5):
        while (await broker.operator.get("GET", "/agents/iris"))["connected_units"]:
            await anyio.lowlevel.checkpoint()

    await driver.saw("iris", "stopped", at=broker.clock.now)

    assert await show(broker) == (False, None)
