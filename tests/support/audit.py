"""What must hold once traffic has gone through kills: the ledger of the answers against what is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import anyio

from shared.wire.notices import STREAM
from tests.support.access import AgentAccess
from tests.support.nats import NatsServer
from tests.support.notices import Notice, Reader
from tests.support.traffic import Traffic
from tests.support.units import Units

RELAY_SECONDS = 10


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
