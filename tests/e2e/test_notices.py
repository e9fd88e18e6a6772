"""Notices of a real hive on JetStream, read with the reader's credential of `hive.json`."""

from __future__ import annotations

import json
from functools import partial

import anyio.to_thread
import pytest

from tests.support.hive import Hive
from tests.support.notices import Notice, Reader, connected_reader
from tests.support.script import JsonObject
from tests.support.trespass import FORBIDDEN, attempt

LIFE = ["stopped", "started", "killed", "started", "crashed", "started", "destroyed"]


async def in_thread(hive: Hive, *args: str) -> None:
    await anyio.to_thread.run_sync(partial(hive.ctl, *args))


def of(notices: list[Notice], agent: str) -> list[str]:
    """The agent's life; a commit in this checkout meanwhile would change the revision of what restarts."""
    told = (notice.what for notice in notices)
    return [event for name, event in told if name == agent and event != "revision_changed"]


@pytest.mark.requirement(
    "notices.live", "notices.durable", "notices.history", "notices.envelope", "notices.crash-message"
)
async def test_a_life_is_told_once_and_in_order_to_everybody(hive: Hive) -> None:
    nats_part = hive.hive_json()["nats"]
    async with connected_reader(nats_part) as reader:
        # The durable has seen what was before, and then goes offline.
        assert of(await reader.fetch(100), "iris") == ["started"]
    hive.agent("ruth").drain()
    async with connected_reader(nats_part) as reader:
        live = await reader.live()
        for command in (["stop"], ["start"], ["kill"], ["start"]):
            await in_thread(hive, "agent", *command, "iris")
        await anyio.to_thread.run_sync(hive.kill, "hyperhive-iris")
        await live.until(lambda seen: len(of(seen, "iris")) >= len(LIFE) - 1)
        await in_thread(hive, "agent", "destroy", "iris", "--yes")
        await live.until(lambda seen: len(of(seen, "iris")) >= len(LIFE))
        missed = await reader.fetch(100)
        history = await reader.history()
    assert of(live.items, "iris") == LIFE
    assert of(missed, "iris") == LIFE
    assert of(history, "iris") == ["started", *LIFE]
    assert [notice.what for notice in history] == [
        *(n.what for n in history[: -len(missed)]),
        *(n.what for n in missed),
    ]
    check_envelopes(history)
    crash = [
        json.loads(row["body"])
        for row in hive.operator.json("GET", "/agents/ruth/inbox")["messages"]
        if row["sender"] == "system"
    ]
    assert [event["agent"] for event in crash if event["event"] == "ContainerCrash"] == ["iris"]


@pytest.mark.requirement("notices.broker-away")
async def test_a_crash_while_the_broker_is_away_is_told_once(hive: Hive) -> None:
    async with connected_reader(hive.hive_json()["nats"]) as reader:
        live = await reader.live()
        with hive.frozen("broker"):
            await anyio.to_thread.run_sync(hive.kill, "hyperhive-ruth")
            await anyio.to_thread.run_sync(hive.pid_of, "hyperhive-ruth")
        await live.until(lambda seen: "started" in of(seen, "ruth"))
        history = await reader.history()
    assert of(live.items, "ruth") == ["crashed", "started"]
    assert of(history, "ruth") == ["started", "crashed", "started"]


def check_envelopes(notices: list[Notice]) -> None:
    assert len({notice.event["id"] for notice in notices}) == len(notices)
    for notice in notices:
        agent, what = notice.what
        event = notice.event
        assert notice.headers["Nats-Msg-Id"] == event["id"]
        assert notice.headers["Content-Type"] == "application/cloudevents+json"
        assert (event["specversion"], event["subject"]) == ("1.0", agent)
        assert event["type"] == f"hyperhive.agent.{what}.v1"
        assert event["source"] == f"/hives/{notice.subject.split('.')[2]}"
        assert event["time"].endswith(("Z", "+00:00"))


@pytest.mark.requirement("notices.read-only")
@pytest.mark.parametrize("what", FORBIDDEN)
async def test_a_reader_changes_nothing(hive: Hive, what: str) -> None:
    async with connected_reader(hive.hive_json()["nats"]) as reader:
        before = await state_of(reader)
        await attempt(reader.connection, what, own=reader.durable)
        assert await state_of(reader) == before


async def state_of(reader: Reader) -> tuple[object, ...]:
    info = await reader.connection.jetstream().stream_info("SWARM_NOTICES")
    durable = await reader.connection.jetstream().consumer_info("SWARM_NOTICES", reader.durable)
    state = info.state
    return state.messages, state.first_seq, state.last_seq, state.consumer_count, durable.name, info.config


@pytest.mark.requirement("notices.apart")
@pytest.mark.parametrize("subject", [">", "_INBOX.>", "_INBOX_broker.>", "$SYS.>", "$JS.>", "swarm.>"])
async def test_a_reader_hears_nothing_but_notices_and_its_own_inbox(hive: Hive, subject: str) -> None:
    async with connected_reader(hive.hive_json()["nats"]) as reader:
        await reader.connection.subscribe(subject)
        await reader.connection.flush()
        await reader.refusals.until(
            lambda said: any("permissions violation" in line.lower() for line in said)
        )


def test_the_cli_tails_the_same_notices(hive: Hive) -> None:
    def first_of_ruth() -> JsonObject:
        done = hive.run("notices", "tail", "--json", "--from-start", "--no-follow")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return next(event for event in events if event.get("subject") == "ruth")

    assert first_of_ruth()["type"] == "hyperhive.agent.started.v1"
