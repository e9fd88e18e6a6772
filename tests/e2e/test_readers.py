"""Readers granted on a running hive with `hivectl notices grant`: what each gets, and that none gets more."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.runtime.ids import new_ulid
from shared.wire.notices import STREAM
from tests.support.hive import Hive, running_hive
from tests.support.nats import barrier
from tests.support.notices import Heard, Notice, Reader, connected_reader
from tests.support.script import JsonObject
from tests.support.trespass import ALLOWED, FORBIDDEN, REPLY_TARGETS, UNHEARD, attempt, fill
from tests.support.waiting import eventually

KEYS = {"name", "url", "user", "password_file", "inbox_prefix", "durable", "ready"}


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    """A hive with an agent `clock` that nobody runs: what happens to it is what the tests report."""
    with running_hive() as running:
        running.ctl("agent", "add", "clock", "--no-start")
        yield running


@pytest.fixture(scope="module")
def left(hive: Hive) -> JsonObject:
    return login_of(hive.ctl("notices", "grant", "left"))


@pytest.fixture(scope="module")
def right(hive: Hive) -> JsonObject:
    return login_of(hive.ctl("notices", "grant", "right"))


def login_of(granted: JsonObject) -> JsonObject:
    """The reader as `hive.json` would have it."""
    same = {key: granted[key] for key in ("url", "inbox_prefix", "durable")}
    return {**same, "reader_user": granted["user"], "reader_password_file": granted["password_file"]}


@asynccontextmanager
async def both(left: JsonObject, right: JsonObject) -> AsyncIterator[tuple[Reader, Reader]]:
    async with connected_reader(left) as one, connected_reader(right) as other:
        yield one, other


class Clock:
    """Has transitions of the agent `clock` told, alternately that it started and that it stopped."""

    def __init__(self, hive: Hive) -> None:
        self._operator = hive.operator
        self._agent = self._operator.json("GET", "/agents/clock")
        self.runs = bool(self._agent["running"])

    def tick(self, *, settled: bool = True) -> None:
        """One transition, and so one notice, which is on the stream on return unless `settled` is false."""
        self.runs = not self.runs
        kind = "started" if self.runs else "stopped"
        event = {"event_id": new_ulid(), "kind": kind, "at": 1_800_000_000, "agent_id": self._agent["id"]}
        self._operator.json("POST", "/driver/events", {"driver_id": new_ulid(), "events": [event]})
        if settled:
            eventually(lambda: self._operator.json("GET", "/hive")["notices_waiting"] == 0, within=30)


def read(file: str) -> str:
    return Path(file).read_text().strip()


def ids(notices: list[Notice]) -> list[str]:
    return [notice.event["id"] for notice in notices]


# -- what they are given


@pytest.mark.requirement("readers.granted")
def test_a_grant_says_where_everything_is_and_repeated_says_the_same(hive: Hive) -> None:
    granted = hive.ctl("notices", "grant", "pager")
    again = hive.run("notices", "grant", "pager")

    assert granted.keys() == KEYS
    assert granted["ready"] is True
    file = Path(granted["password_file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert hive.ctl("notices", "grant", "pager") == granted
    assert [str(granted[key]) in again.stdout for key in KEYS - {"ready"}] == [True] * 6
    shown = again.stdout + again.stderr + json.dumps(granted) + hive.log("broker") + hive.log("nats")
    assert file.read_text().strip() not in shown
    listed = {reader["name"]: reader for reader in hive.ctl("notices", "readers")}
    assert listed["pager"] == granted
    assert listed["default"]["user"] == hive.hive_json()["nats"]["reader_user"]


@pytest.mark.requirement("readers.granted")
async def test_two_readers_each_get_every_notice_in_order(
    hive: Hive, left: JsonObject, right: JsonObject
) -> None:
    clock = Clock(hive)
    async with both(left, right) as readers:
        for reader in readers:
            await reader.fetch(1000)
    for _ in range(3):
        await anyio.to_thread.run_sync(clock.tick)
    async with both(left, right) as readers:
        live = [await reader.live() for reader in readers]
        for _ in range(3):
            await anyio.to_thread.run_sync(clock.tick)
        for heard in live:
            await heard.until(lambda seen: len(seen) == 3)
        fetched = [await reader.fetch(100) for reader in readers]
        histories = [await reader.history() for reader in readers]

    assert ids(histories[0]) == ids(histories[1])
    for heard, taken in zip(live, fetched, strict=True):
        assert ids(taken) == ids(histories[0])[-6:]
        assert ids(heard.items) == ids(histories[0])[-3:]


@pytest.mark.requirement("readers.granted")
async def test_a_grant_while_notices_flow_costs_those_who_read_nothing(hive: Hive) -> None:
    clock = Clock(hive)
    granted, flowed = anyio.Event(), anyio.Event()
    async with connected_reader(hive.hive_json()["nats"]) as reader:
        await reader.fetch(1000)
        live = await reader.live()
        taken: Heard[Notice] = Heard()

        async def flow() -> None:
            told = 0
            while told < 100 or not granted.is_set():
                await anyio.to_thread.run_sync(partial(clock.tick, settled=False))
                told += 1
            await live.until(lambda seen: len(seen) == told)
            flowed.set()

        async def grant() -> None:
            await live.until(lambda seen: len(seen) >= 10)
            for name in ("late-1", "late-2"):
                await anyio.to_thread.run_sync(partial(hive.ctl, "notices", "grant", name))
            granted.set()

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flow)
                tasks.start_soon(grant)
                while not flowed.is_set() or len(taken.items) < len(live.items):
                    for notice in await reader.fetch(10):
                        taken.add(notice)
        everything = ids(await reader.history())[-len(live.items) :]

    assert len(everything) >= 100
    assert ids(live.items) == everything
    assert ids(taken.items) == everything
    assert reader.connection.stats["reconnects"] == 0
    assert reader.refusals.items == []
    async with connected_reader(login_of(hive.ctl("notices", "grant", "late-2"))) as late:
        assert ids(await late.history())[-len(everything) :] == everything


async def test_two_grants_at_once_are_both_granted(hive: Hive) -> None:
    async def grant(name: str) -> None:
        reader = await anyio.to_thread.run_sync(partial(hive.ctl, "notices", "grant", name))
        async with connected_reader(login_of(reader)) as connected:
            assert await connected.history()

    async with anyio.create_task_group() as tasks:
        for name in ("twin-1", "twin-2"):
            tasks.start_soon(grant, name)


async def test_a_grant_that_was_cut_off_is_completed_by_the_next(hive: Hive) -> None:
    """Killed after its first step: the password is there, and nobody knows of it."""
    clock = Clock(hive)
    if clock.runs:
        # Nobody runs it, which doctor would find wrong.
        await anyio.to_thread.run_sync(clock.tick)
    file = hive.layout.nats_dir / "readers" / "cut.password"
    file.write_text("cut-" + "c" * 20)
    file.chmod(0o600)
    assert "cut has a credential and no durable" in json.dumps(hive.ctl("doctor")["checks"])

    reader = hive.ctl("notices", "grant", "cut")

    assert reader["ready"] is True
    assert "cut-" in file.read_text()
    async with connected_reader(login_of(reader)) as connected:
        assert await connected.history()


@pytest.mark.parametrize("name", ["A", "a.b", "..", ">", "x" * 33, ""])
def test_a_name_that_is_none_is_a_usage_error(hive: Hive, name: str) -> None:
    for command in ("grant", "revoke"):
        assert "must be 1 to 32" in hive.ctl("notices", command, name, exits=2)["error"]["message"]


# -- what they are not given


@pytest.mark.requirement("readers.apart")
async def test_a_reader_changes_nothing_and_reaches_nobody(
    hive: Hive, left: JsonObject, right: JsonObject
) -> None:
    """Every attempt, one after the other: then everything is as it was, and the other has missed nothing."""
    await anyio.to_thread.run_sync(Clock(hive).tick)
    async with both(left, right) as (one, other):
        await other.fetch(1000)
        await anyio.to_thread.run_sync(Clock(hive).tick)
        before = await state_of(other)
        for what in FORBIDDEN:
            await attempt(one.connection, what, own=one.durable, other=other.durable)
            assert await state_of(other) == before, what
        assert len(one.refusals.items) >= len(FORBIDDEN)
        assert len(await other.fetch(10)) == 1


async def state_of(reader: Reader) -> tuple[Any, ...]:
    stream = reader.connection.jetstream()
    info = await stream.stream_info(STREAM)
    durable = await stream.consumer_info(STREAM, reader.durable)
    state = info.state
    counts = (state.messages, state.first_seq, state.last_seq, state.consumer_count)
    return (*counts, info.config, durable.config, durable.ack_floor, durable.delivered, durable.paused)


@pytest.mark.requirement("readers.apart")
@pytest.mark.parametrize("target", REPLY_TARGETS)
async def test_no_answer_goes_where_a_reader_would_have_it(
    hive: Hive, left: JsonObject, right: JsonObject, target: str
) -> None:
    heard: list[tuple[str, bytes]] = []

    async def note(row: Msg) -> None:
        heard.append((row.subject, row.data))

    await anyio.to_thread.run_sync(Clock(hive).tick)
    async with both(left, right) as (one, other):
        before = await state_of(other)
        await other.connection.subscribe(f"{right['inbox_prefix']}.>", cb=note)
        for reader in (one, other):
            await reader.connection.subscribe("swarm.notices.>", cb=note)
            await barrier(reader.connection)
        names = {"own": one.durable, "other": other.durable}
        for request in ALLOWED.values():
            subject, body = fill(request, **names)
            await one.connection.publish(subject, body, reply=REPLY_TARGETS[target].format(**names))
        # An answer to a later request on the same connection: all before it have been dealt with.
        await one.connection.jetstream().get_msg(STREAM, 1, direct=True)
        await barrier(other.connection)

        assert [row for row in heard if not row[0].endswith((".started", ".stopped"))] == []
        assert await state_of(other) == before


@pytest.mark.requirement("readers.apart")
@pytest.mark.parametrize("subject", UNHEARD)
async def test_a_reader_does_not_hear(left: JsonObject, right: JsonObject, subject: str) -> None:
    async with connected_reader(left) as one:
        await one.connection.subscribe(subject.format(other=right["reader_user"]))
        await one.connection.flush()
        await one.refusals.until(
            lambda said: any("permissions violation for subscription" in line.lower() for line in said)
        )


@pytest.mark.requirement("readers.apart")
async def test_a_message_of_another_can_neither_be_taken_nor_acked(
    hive: Hive, left: JsonObject, right: JsonObject
) -> None:
    async with both(left, right) as (one, other):
        await other.fetch(1000)
        await anyio.to_thread.run_sync(Clock(hive).tick)
        pull = await other.connection.jetstream().pull_subscribe_bind(other.durable, STREAM)
        (row,) = await pull.fetch(1, timeout=5)
        for answer in (b"+ACK", b"+TERM", b"-NAK", b"+NXT"):
            await one.connection.publish(row.reply, answer, reply=f"{left['inbox_prefix']}.x")
        await barrier(one.connection)
        info = await pull.consumer_info()

        assert info.num_ack_pending == 1
        await row.ack_sync(timeout=5)
        assert (await pull.consumer_info()).num_ack_pending == 0


@pytest.mark.requirement("readers.apart")
async def test_a_password_opens_its_own_user_only(left: JsonObject, right: JsonObject) -> None:
    password = read(left["reader_password_file"])
    for user in (right["reader_user"], "broker", "sys"):
        client = Client()
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            await client.connect(left["url"], user=user, password=password, allow_reconnect=False)
        await client.close()


# -- and how it ends


@pytest.mark.requirement("readers.revoked")
async def test_a_revoked_reader_is_cut_off_and_its_durable_goes(hive: Hive) -> None:
    reader = hive.ctl("notices", "grant", "gone")
    login, file = login_of(reader), reader["password_file"]
    password = read(file)
    async with connected_reader(hive.hive_json()["nats"]) as stays, connected_reader(login) as goes:
        live = await stays.live()
        await goes.live()
        durables = (await stays.connection.jetstream().stream_info(STREAM)).state.consumer_count
        revoked = await anyio.to_thread.run_sync(partial(hive.ctl, "notices", "revoke", "gone"))
        await goes.refusals.until(lambda said: any("authorization" in line.lower() for line in said))
        await anyio.to_thread.run_sync(Clock(hive).tick)
        await live.until(lambda seen: len(seen) == 1)
        left_over = (await stays.connection.jetstream().stream_info(STREAM)).state.consumer_count

        assert stays.connection.stats["reconnects"] == 0
    assert revoked == {"name": "gone", "revoked": True}
    assert left_over == durables - 1
    with pytest.raises(FileNotFoundError):
        read(file)
    assert "gone" not in {one["name"] for one in hive.ctl("notices", "readers")}
    assert hive.ctl("notices", "revoke", "gone", exits=4)["error"]["code"] == "not_found"
    assert hive.ctl("notices", "grant", "gone")["ready"] is True
    assert read(file) != password
    hive.ctl("notices", "revoke", "gone")


def test_the_reader_of_hive_json_is_not_revoked(hive: Hive) -> None:
    assert "default" in hive.ctl("notices", "revoke", "default", exits=2)["error"]["message"]


async def test_readers_are_there_again_after_down_and_up(hive: Hive, left: JsonObject) -> None:
    async with connected_reader(left) as reader:
        await reader.fetch(1000)
    await anyio.to_thread.run_sync(hive.down)
    error = hive.ctl("notices", "grant", "pager", exits=6)["error"]
    await anyio.to_thread.run_sync(hive.up)

    assert error["code"] == "not_running"
    async with connected_reader(left) as reader:
        assert {notice.what for notice in await reader.fetch(100)} >= {
            ("ruth", "stopped"),
            ("ruth", "started"),
        }
