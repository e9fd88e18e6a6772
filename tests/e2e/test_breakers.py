"""Floods, echoes and poison under the limits as they are by default: each is stopped, said, and seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from services.broker.service.parking import MAX_FAILED_TURNS
from tests.support.access import AgentAccess, OperatorAccess, answer_of
from tests.support.prose import ids_of, sent_id
from tests.support.units import Units, running_units

HOPS, PENDING, PAIR = 30, 1_000, 60
STORMERS = 8


@pytest.fixture(scope="module")
def plain() -> Iterator[Units]:
    """Three agents with surfaces, nothing set."""
    with running_units("ruth", "iris", "milo") as running:
        yield running


@asynccontextmanager
async def poster(who: AgentAccess | OperatorAccess, tree: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Connections that are kept, below one tree."""
    headers = {"Authorization": f"Bearer {who.token}"}
    async with httpx2.AsyncClient(
        base_url=f"{who.broker_url}/v1/{tree}", headers=headers, timeout=30, trust_env=False
    ) as http:
        yield http


def refusals(units: Units, sender: str, to: str | None = None) -> dict[tuple[str, str], int]:
    """What the operator sees refused of a sender (to one recipient): recipient and code to count."""
    rows = units.operator.json("GET", "/refusals")["refusals"]
    own = [row for row in rows if row["sender"] == sender and to in {None, row["recipient"]}]
    return {(row["recipient"], row["code"]): row["count"] for row in own}


@pytest.mark.requirement("delivery.echo-loop", "delivery.refusals-seen")
async def test_three_agents_that_echo_each_other_are_stopped(plain: Units) -> None:
    names = ["ruth", "iris", "milo"]
    # Who echoes answers nobody in particular: no in_reply_to tells that this is one long conversation.
    async with (
        plain.agents["ruth"].client() as ruth,
        plain.agents["iris"].client() as iris,
        plain.agents["milo"].client() as milo,
    ):
        clients = [ruth, iris, milo]
        sent = sent_id((await call(ruth, "send", to="iris", body="echo?")).ok())
        for number in range(1, 2 * HOPS):
            me, following = number % 3, (number + 1) % 3
            assert ids_of((await call(clients[me], "recv")).ok()) == [sent]
            answer = await call(clients[me], "send", to=names[following], body="echo!")
            if answer.is_error:
                break
            sent = sent_id(answer.ok())
            await call(clients[me], "ack_until", up_to=sent)
        assert number == HOPS
        assert f"message {HOPS + 1} of a chain" in answer.text
        assert refusals(plain, names[me]) == {(names[following], "too_many_hops"): 1}
        plain.operator.send(names[me], "go on")
        (await call(clients[me], "send", to=names[following], body="echo!")).ok()


async def call(client: Client, tool: str, /, **arguments: Any) -> Any:
    return answer_of(await client.call_tool(tool, arguments))


@pytest.mark.requirement("delivery.parked")
def test_poison_is_parked_and_nobody_is_woken_by_it(plain: Units) -> None:
    iris = plain.agents["iris"]
    iris.drain()
    poison = plain.operator.send("iris", "poison")
    for turn in range(MAX_FAILED_TURNS):
        rows = iris.json("POST", "/inbox/recv", {"turn": f"turn-{turn}"})["messages"]
        assert [row["id"] for row in rows] == [poison]
        iris.json("POST", "/inbox/release", {"turn": f"turn-{turn}", "failed": True})
    assert iris.call("recv", max=5).ok() == "Inbox empty.\n\n0 more pending"
    iris.call("ack_until", up_to=poison).ok()
    assert [row["id"] for row in plain.operator.json("GET", "/parked")["messages"]] == [poison]
    assert refusals(plain, "operator", to="iris") == {("iris", "parked"): 1}
    plain.operator.json("POST", f"/messages/{poison}/release")
    assert ids_of(iris.call("recv").ok()) == [poison]


@pytest.mark.requirement("delivery.full-inbox", "delivery.refusals-seen")
async def test_the_message_after_a_thousand_is_refused_and_none_is_dropped(plain: Units) -> None:
    full = plain.enlist("full")
    ids: list[int] = []

    async def fill(http: httpx2.AsyncClient, count: int) -> None:
        for _ in range(count):
            response = await http.post("/messages", json={"to": "full", "body": "x"})
            ids.append(response.json()["sent"][0]["id"])

    async with poster(plain.operator, "operator") as http:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(fill, http, PENDING // 20)
        response = await http.post("/messages", json={"to": "full", "body": "x"})
        assert (response.status_code, response.json()["code"]) == (429, "inbox_full")
    refused = (await plain.agents["ruth"].acall("send", to="full", body="x")).error()
    assert f"the inbox of full is full ({PENDING} messages wait); nothing was sent" in refused
    assert refusals(plain, "operator", to="full") == {("full", "inbox_full"): 1}
    assert refusals(plain, "ruth")["full", "inbox_full"] == 1

    taken: list[int] = []
    async with poster(full, "agent") as http:
        while rows := (await http.post("/inbox/recv", json={"max": 5})).json()["messages"]:
            taken += [row["id"] for row in rows]
    assert taken == sorted(ids)
    assert len(taken) == PENDING
    (await plain.agents["ruth"].acall("send", to="full", body="x")).ok()


@pytest.mark.requirement("delivery.storm", "delivery.refusals-seen")
async def test_a_storm_of_one_agent_delays_no_other(plain: Units) -> None:
    stormy, calm = plain.enlist("stormy"), plain.enlist("calm")
    plain.enlist("port")
    answers, raging = 0, anyio.Event()

    async def storm(http: httpx2.AsyncClient) -> None:
        nonlocal answers
        for to in cycle(["port", "calm", "nobody"]):
            response = await http.post("/messages", json={"to": to, "body": "thunder"})
            assert response.status_code in (201, 404, 429), response.text
            answers += 1
            if answers == 20 * PAIR:
                raging.set()

    async with (
        poster(stormy, "agent") as wild,
        poster(calm, "agent") as quiet,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(STORMERS):
            tasks.start_soon(storm, wild)
        await raging.wait()
        for _ in range(PAIR):
            before = answers
            assert (await quiet.post("/messages", json={"to": "port", "body": "hello"})).status_code == 201
            # Counted, not timed: while one waits, the others may get in so many times, and no more.
            assert answers - before <= 10 * STORMERS
        tasks.cancel_scope.cancel()
    seen = refusals(plain, "stormy")
    assert seen.keys() == {("port", "pair_too_fast"), ("calm", "pair_too_fast"), ("?", "not_found")}
    # Those under way at the end may have been refused unheard.
    assert 0 <= sum(seen.values()) + 2 * PAIR - answers <= STORMERS
