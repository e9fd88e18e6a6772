"""kill -9, twenty times, of broker, NATS and both, under sixteen senders, sixteen receivers and a driver.

What was answered is there, once; what was acked stays acked; a row is in one hand; each transition is in the
stream once and in order. All parties go on by themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from shared.wire.notices import STREAM
from tests.support.access import AgentAccess
from tests.support.nats import NatsServer, nats_server
from tests.support.notices import Notice, Reader
from tests.support.traffic import Traffic
from tests.support.units import Units, running_units

KILLS = 20
SENDERS = 16
# One receiver each, which acks; and two each, which keep or give back.
ACKING = [f"acking-{number}" for number in range(8)]
SHARED = [f"shared-{number}" for number in range(4)]
LIVING = [f"living-{number}" for number in range(6)]
# What must have been answered between two kills, so that none hits a standstill.
SENDS_BETWEEN, TRANSITIONS_BETWEEN = 32, 4
RELAY_SECONDS = 10
LIMITS = {
    "HIVE_BROKER_MAX_PENDING": "100000",
    "HIVE_BROKER_PAIR_PER_MINUTE": "0",
    "HIVE_LOG_LEVEL": "warning",
}
NATS, BROKER = "nats", "broker"


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="hn-") as directory, nats_server(Path(directory)) as server:
        yield server


@pytest.fixture
def killable(server: NatsServer) -> Iterator[Units]:
    """A broker on that server, quick to start again, with agents that have no processes."""
    settings = {f"HIVE_BROKER_{name.upper()}": str(value) for name, value in server.settings().items()}
    with running_units(**LIMITS, **settings) as units:
        names = ["ruth", *(f"sender-{number}" for number in range(SENDERS)), *ACKING, *SHARED, *LIVING]
        for name in names:
            units.enlist(name, parent=None if name == "ruth" else "ruth")
        units.broker.preload("services.broker.__main__")
        yield units


def kill(units: Units, server: NatsServer, victims: set[str]) -> None:
    """`kill -9` all of them, then start all of them, at the same time."""
    if NATS in victims:
        server.kill()
    if BROKER in victims:
        units.broker.kill()
    starts = {NATS: server.start, BROKER: units.broker.start}
    with ThreadPoolExecutor(len(victims)) as pool:
        for started in [pool.submit(starts[victim]) for victim in victims]:
            started.result()


@pytest.mark.requirement("kills.messages", "kills.transitions")
@pytest.mark.parametrize("victims", [{BROKER}, {NATS}, {BROKER, NATS}], ids="+".join)
async def test_twenty_kills_under_load(killable: Units, server: NatsServer, victims: set[str]) -> None:
    traffic = Traffic(killable)
    ledger = traffic.ledger
    agents = killable.agents
    with anyio.fail_after(150):
        async with anyio.create_task_group() as tasks:
            for number in range(SENDERS):
                to = [*ACKING, *SHARED]
                tasks.start_soon(
                    traffic.send, agents[f"sender-{number}"], to[number % len(to) :] + to[: number % len(to)]
                )
            for name in ACKING:
                tasks.start_soon(traffic.receive_and_ack, agents[name])
            for name in SHARED:
                for hand in ("left", "right"):
                    tasks.start_soon(traffic.receive_and_keep, agents[name], hand)
            tasks.start_soon(traffic.live, LIVING)
            for _ in range(KILLS):
                await ledger.advance(sends=SENDS_BETWEEN, transitions=TRANSITIONS_BETWEEN)
                await anyio.to_thread.run_sync(kill, killable, server, victims)
            traffic.stop()
        # The clock of the notices runs from here: all parties have finished with what they had begun.
        notices = await read_notices(server, expected=ledger.transitions)

    check_notices(traffic, notices)
    stored = {name: rows_of(killable, agents[name]) for name in (*ACKING, *SHARED)}
    check_stored_once(traffic, stored)
    for name in ACKING:
        check_acked(traffic, name, stored[name])
    for name in SHARED:
        check_held(traffic, stored[name])


async def read_notices(server: NatsServer, *, expected: int) -> list[Notice]:
    """All of the stream, as soon as `expected` are there."""
    with anyio.fail_after(RELAY_SECONDS):
        async with server.reader() as (client, _):
            stream = client.jetstream()
            while (await stream.stream_info(STREAM)).state.messages < expected:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            return await Reader(client, server.identity()).history()


def rows_of(units: Units, agent: AgentAccess) -> list[dict[str, Any]]:
    """Every row of an agent's inbox, as the operator sees it."""
    rows: list[dict[str, Any]] = []
    before = ""
    while True:
        page = units.operator.json("GET", f"/agents/{agent.name}/inbox?include_acked=true&limit=500{before}")
        rows = page["messages"] + rows
        if not page["more"]:
            return rows
        before = f"&before={rows[0]['id']}"


def check_stored_once(traffic: Traffic, stored: dict[str, list[dict[str, Any]]]) -> None:
    """Every message that was answered is stored under the id of the answer, and nothing else is."""
    rows = sorted((row["body"], row["id"]) for inbox in stored.values() for row in inbox)
    assert rows == sorted(traffic.ledger.sent.items())
    assert len({number for _, number in rows}) == len(rows)


def check_acked(traffic: Traffic, name: str, rows: list[dict[str, Any]]) -> None:
    """Every row was taken once, and is acked."""
    assert traffic.ledger.taken[name] == [row["id"] for row in rows]
    assert {(row["state"], row["delivered_count"]) for row in rows} == {("acked", 1)}


def check_held(traffic: Traffic, rows: list[dict[str, Any]]) -> None:
    """Every row is in somebody's hands, handed out once and once more for each time it was given back."""
    ledger = traffic.ledger
    assert [row["id"] for row in rows if row["id"] not in ledger.hands] == []
    assert {row["state"] for row in rows} == {"delivered"}
    counts = {row["id"]: row["delivered_count"] for row in rows}
    assert counts == {row["id"]: 1 + ledger.returned[row["id"]] for row in rows}


def check_notices(traffic: Traffic, notices: list[Notice]) -> None:
    """Each transition once, in order of each agent."""
    assert len({notice.event["id"] for notice in notices}) == len(notices)
    seen: dict[str, list[tuple[str, int]]] = {}
    for notice in notices:
        agent, event = notice.what
        at = int(datetime.fromisoformat(notice.event["time"]).timestamp())
        seen.setdefault(agent, []).append((event, at))
    assert seen == traffic.ledger.told
