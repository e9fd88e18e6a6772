"""Control streams, starts of daemons, and what their reports change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from services.broker.app import create_app
from services.broker.service.control import CONNECTS_AT_ONCE
from services.broker.service.notices import NoticeWriter
from services.broker.service.revisions import AT_ONCE, SECONDS_EACH, Revisions
from services.broker.store import Store, Tx
from shared.errors import Unavailable
from tests.integration.broker.running import BOOTS, Broker, Peer, running_broker

EARLIER = "0" * 26


async def test_a_later_start_of_the_daemon_gets_back_what_the_earlier_held(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    acked, kept, urgent = (
        await ruth.send("iris"),
        await ruth.send("iris"),
        await ruth.send("iris", urgent=True),
    )
    async with broker.connect(iris, BOOTS[0]) as stream:
        await stream.next_grants()
        assert await iris.recv(5, boot=BOOTS[0]) == [urgent, acked, kept]
        await iris.ack(acked)
    async with broker.connect(iris, BOOTS[1]) as stream:
        await stream.next_grants()
        assert await iris.recv(5, boot=BOOTS[1]) == [urgent, kept]
    async with broker.connect(iris, BOOTS[1]) as stream:
        await stream.next_grants()
        assert await iris.recv(5, boot=BOOTS[1]) == []


async def test_a_recv_of_a_later_start_needs_no_stream(ruth: Peer, iris: Peer) -> None:
    row = await ruth.send("iris")
    assert await iris.recv(1, boot=BOOTS[1]) == [row]
    assert await iris.recv(1, boot=BOOTS[2]) == [row]
    error = await iris.refused(409, "POST", "/inbox/recv", {"boot": BOOTS[1]})
    assert error["code"] == "boot_superseded"
    assert await iris.recv(1, boot=BOOTS[2]) == []


async def test_only_the_hyperhive_daemons_start_gives_rows_back(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await ruth.send("iris")
    await iris.recv()
    async with broker.connect(iris, BOOTS[5], unit="bash") as stream:
        await stream.next_grants()
        assert await iris.recv() == []


async def test_an_earlier_start_is_refused_once_a_later_one_has_connected(broker: Broker, iris: Peer) -> None:
    hello = {"unit": "hyperhive", "boot": BOOTS[0], "revision": "1"}
    async with broker.connect(iris, BOOTS[1]) as stream, broker.connect(iris, BOOTS[1], unit="bash"):
        await stream.next_grants()
        await iris.refused(409, "POST", "/control", hello)
        await iris.refused(409, "POST", "/control", hello | {"unit": "bash"})
        report = {"unit": "hyperhive", "boot": BOOTS[0], "turn_state": "Idle"}
        await iris.refused(409, "POST", "/reports", report)


async def test_a_daemon_started_after_the_clock_was_set_back_is_not_locked_out(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    row = await ruth.send("iris")
    async with broker.connect(iris, BOOTS[5]) as stream:
        await stream.next_grants()
        assert await iris.recv(1, boot=BOOTS[5]) == [row]
    with anyio.fail_after(10):
        # The broker sees the end of the stream a moment after its client.
        while (await broker.operator.get("GET", "/agents/iris"))["connected_units"]:
            await anyio.lowlevel.checkpoint()
    async with broker.connect(iris, BOOTS[1]) as stream:
        await stream.next_grants()
        assert await iris.recv(1, boot=BOOTS[1]) == [row]


async def test_a_new_stream_of_the_same_daemon_ends_the_old_one(broker: Broker, iris: Peer) -> None:
    async with broker.connect(iris, BOOTS[0]) as old:
        await old.next_grants()
        async with broker.connect(iris, BOOTS[1]) as new:
            await new.next_grants()
            await old.drain()
            assert (await broker.operator.get("GET", "/agents/iris"))["connected_units"] == ["hyperhive"]


async def test_an_agent_runs_while_its_daemon_is_connected(broker: Broker, ruth: Peer, iris: Peer) -> None:
    async with broker.connect(iris) as stream, broker.connect(iris, unit="bash"):
        await stream.next_grants()
        shown = await broker.operator.get("GET", "/agents/iris")
        assert (shown["running"], shown["connected_units"]) == (True, ["bash", "hyperhive"])
        assert (await ruth.get("GET", "/meta?name=iris"))["running"] is True
        sent = await ruth.get("POST", "/messages", {"to": "iris", "body": "x"})
        assert sent["sent"][0]["recipient_state"] == "running"
    with anyio.fail_after(5):
        while (await broker.operator.get("GET", "/agents/iris"))["connected_units"]:
            await anyio.lowlevel.checkpoint()


async def test_reports_show_in_what_others_know(broker: Broker, ruth: Peer, iris: Peer) -> None:
    now = broker.clock.now
    async with broker.connect(iris, revision="1.0+gabc") as stream:
        await stream.next_grants()
        report = {
            "unit": "hyperhive",
            "boot": BOOTS[0],
            "turn_state": "Thinking",
            "turn_state_since": now - 3,
        }
        await iris.get("POST", "/reports", report)
        await iris.get("PUT", "/status", {"text": " on it ", "set_at": now - 1})
        assert await ruth.get("GET", "/meta?name=iris") == {
            "name": "iris",
            "hyperhive_rev": "1.0+gabc",
            "running": True,
            "status_text": "on it",
            "status_set_at": now - 1,
            "turn_state": "Thinking",
            "hive_name": "hive",
        }
        await iris.get("POST", "/reports", report | {"unit": "bash", "turn_state": "Idle"})
        assert (await broker.operator.get("GET", "/agents/iris"))["turn_state_since"] == now - 3


async def test_a_status_set_earlier_does_not_replace_a_later_one(broker: Broker, iris: Peer) -> None:
    now = broker.clock.now
    await iris.get("PUT", "/status", {"text": "later", "set_at": now - 1})
    await iris.get("PUT", "/status", {"text": "earlier", "set_at": now - 2})
    await iris.get("PUT", "/status", {"text": "future", "set_at": now + 1_000})
    assert (await iris.get("GET", "/meta"))["status_set_at"] == now
    await iris.get("PUT", "/status", {"text": "", "set_at": now})
    assert (await iris.get("GET", "/meta"))["status_text"] == ""


@pytest.mark.parametrize("text", ["two\nlines", "x" * 201, "esc\x1b[31m", "nul\x00", "sep\u2028"])
async def test_a_status_that_is_not_one_plain_line_is_refused(standing: Broker, text: str) -> None:
    iris = standing.agents["iris"]
    await iris.refused(422, "PUT", "/status", {"text": text, "set_at": 1})
    report = {"unit": "hyperhive", "boot": BOOTS[0], "status_text": text}
    await iris.refused(422, "POST", "/reports", report)


async def test_meta_of_an_unknown_agent_says_what_is_right(ruth: Peer) -> None:
    assert "did you mean iris" in (await ruth.refused(404, "GET", "/meta?name=iriss"))["message"]
    assert (await ruth.get("GET", "/meta"))["name"] == "ruth"
    for name in ("..", "iris%0A", "%00", "r%C3%BCth"):
        await ruth.refused(404, "GET", f"/meta?name={name}")


@pytest.mark.requirement("limits.connects")
async def test_a_daemon_that_connects_again_and_again_is_told_to_wait(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    hello = {"unit": "hyperhive", "boot": BOOTS[0], "revision": "1.0"}
    async with broker.connect(iris) as stream:
        await stream.next_grants()
        for _ in range(CONNECTS_AT_ONCE - 1):
            # Refused for its boot, and yet an attempt.
            await iris.refused(409, "POST", "/control", hello | {"boot": EARLIER})
        answer = await iris.ask("POST", "/control", hello)
        assert (answer.status_code, answer.json()["code"]) == (429, "connects_too_fast")
        seconds = int(answer.headers["Retry-After"])
        assert 0 < seconds <= 60
        for other in ({"unit": "bash"}, {"unit": "matrix"}):
            async with broker.connect(iris, **other) as another:
                await another.next_grants()
        async with broker.connect(ruth) as another:
            await another.next_grants()
        broker.clock.now += seconds
        async with broker.connect(iris) as another:
            await another.next_grants()
        await iris.refused(429, "POST", "/control", hello)


@pytest.mark.requirement("limits.revisions")
async def test_changes_of_the_revision_are_told_a_few_times_an_hour_and_the_last_one_in_the_end(
    broker: Broker, iris: Peer
) -> None:
    async def connect(revision: str) -> None:
        broker.clock.now += 2
        async with broker.connect(iris, revision=revision) as stream:
            await stream.next_grants()

    async def told() -> tuple[int, str]:
        waiting = (await broker.operator.get("GET", "/hive"))["notices_waiting"]
        return waiting, (await broker.operator.get("GET", "/agents/iris"))["revision"]

    for number in range(AT_ONCE + 10):
        await connect(f"1.{number}")
    # What runs is known at once; who reads notices hears of it later.
    assert await told() == (AT_ONCE, f"1.{AT_ONCE + 9}")
    broker.clock.now += int(SECONDS_EACH)
    await connect("2.0")
    assert await told() == (AT_ONCE + 1, "2.0")


@pytest.mark.requirement("limits.revisions")
async def test_a_change_that_had_to_wait_is_told_after_a_restart_of_the_broker(tmp_path: Path) -> None:
    async def connect(broker: Broker, iris: Peer, revision: str) -> int:
        broker.clock.now += 2
        async with broker.connect(iris, revision=revision) as stream:
            await stream.next_grants()
        waiting: int = (await broker.operator.get("GET", "/hive"))["notices_waiting"]
        return waiting

    async with running_broker(tmp_path) as broker:
        token = (await broker.add("iris")).token
        counts = [
            await connect(broker, broker.agents["iris"], f"1.{number}") for number in range(AT_ONCE + 3)
        ]
        assert counts[-2:] == [AT_ONCE] * 2
    async with running_broker(tmp_path) as broker:
        iris = Peer(broker.http, "/v1/agent", token, "iris")
        assert [await connect(broker, iris, f"1.{AT_ONCE + 2}") for _ in range(2)] == [AT_ONCE + 1] * 2


@pytest.mark.requirement("limits.revisions")
async def test_a_change_that_had_to_wait_is_told_by_itself(broker: Broker, iris: Peer) -> None:
    store = Store(broker.settings.database)
    await store.open()
    notices = NoticeWriter("hive", clock=broker.clock, on_commit=lambda: None)
    revisions = Revisions(store, append_notice=notices.append, deployed="0.1", clock=broker.clock)
    agent_id = (await iris.get("GET", "/self"))["id"]

    async def change(revision: str) -> bool:
        def work(tx: Tx) -> bool:
            agent = tx.agents.find_live(agent_id, lock=True)
            assert agent is not None
            return revisions.change(tx, agent, revision)

        is_told = await store.write(work)
        revisions.settle(agent_id, is_told=is_told)
        return is_told

    async def known() -> str:
        return str((await broker.operator.get("GET", "/agents/iris"))["revision"])

    try:
        assert await change("0.9")
        assert [await change(f"1.{number}") for number in range(AT_ONCE + 2)] == [True] * AT_ONCE + [
            False
        ] * 2
        await revisions.tell_waiting()
        assert await known() == f"1.{AT_ONCE + 1}"
        assert (await broker.operator.get("GET", "/hive"))["notices_waiting"] == AT_ONCE
        broker.clock.now += int(SECONDS_EACH)
        await revisions.tell_waiting()
        assert await known() == f"1.{AT_ONCE + 1}"
        await revisions.tell_waiting()
        assert (await broker.operator.get("GET", "/hive"))["notices_waiting"] == AT_ONCE + 1
    finally:
        await store.close()


@pytest.mark.requirement("limits.revisions")
@pytest.mark.parametrize(
    "revision", ["", "x" * 65, "1.0 beta", "1.0\n", "ü", "1.0>", "\u0000", "a/b", "1.0\u200b"]
)
async def test_a_revision_that_is_no_plain_word_is_refused(standing: Broker, revision: str) -> None:
    hello = {"unit": "hyperhive", "boot": BOOTS[0], "revision": revision}
    error = await standing.agents["iris"].refused(422, "POST", "/control", hello)
    assert error["message"].startswith("revision: ")


async def test_open_streams_end_at_once_when_the_broker_stops(tmp_path: Path) -> None:
    with anyio.fail_after(5):
        async with running_broker(tmp_path) as broker:
            ruth = await broker.add("ruth")
            async with broker.connect(ruth) as stream:
                await stream.next_grants()
                broker.app.state.stop()
                await stream.drain()
                async with broker.connect(ruth) as late:
                    await late.drain()


@pytest.mark.database("sqlite")
async def test_a_second_broker_on_the_same_database_does_not_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        second = create_app(broker.settings)
        with pytest.raises(Unavailable, match="another broker runs"):
            async with second.router.lifespan_context(second):
                pass
        await broker.operator.get("GET", "/hive")


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris")
        ids = [await ruth.send("iris") for _ in range(3)]
        await iris.recv(1)
        await iris.ack(ids[0])
        await broker.permit("ruth", add_groups=["forge"])
    async with running_broker(tmp_path) as again:
        assert again.operator.token == broker.operator.token
        assert await replace(iris, http=again.http).recv() == ids[1:]
        me = await replace(ruth, http=again.http).get("GET", "/self")
        assert "forge" in me["grants"]["groups"]
