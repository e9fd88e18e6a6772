"""Two brokers on one database: every row once, in one hand, and limits that hold over both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from shared.runtime.credential import hash_token, new_token
from tests.integration.broker.running import Peer, TurnedClock, running_broker
from tests.integration.postgresql.conftest import Pair

pytestmark = pytest.mark.database("postgresql")

SENDERS = 8
EACH = 12


async def at_once(*calls: Any) -> list[Any]:
    """Run calls at the same time; answers what they answered, in their order."""
    results: list[Any] = [None] * len(calls)

    async def run(index: int, call: Any) -> None:
        results[index] = await call

    async with anyio.create_task_group() as tasks:
        for index, call in enumerate(calls):
            tasks.start_soon(run, index, call)
    return results


@pytest.mark.requirement("shared.rows")
async def test_no_id_is_given_twice_and_no_row_is_in_two_hands(pair: Pair) -> None:
    sent: list[int] = []
    received: list[int] = []
    left = SENDERS

    async def send(ruth: Peer) -> None:
        nonlocal left
        sent.extend([await ruth.send("iris") for _ in range(EACH)])
        left -= 1

    async def receive(iris: Peer) -> None:
        while left or len(received) < SENDERS * EACH:
            received.extend(await iris.recv(5))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(SENDERS):
                tasks.start_soon(send, pair.both("ruth")[number % 2])
            for number in range(4):
                tasks.start_soon(receive, pair.both("iris")[number % 2])

    assert len(sent) == SENDERS * EACH
    assert Counter(received) == Counter(sent)
    assert max(Counter(received).values()) == 1


@pytest.mark.requirement("shared.rows")
async def test_acks_and_returns_at_one_broker_count_at_the_other(pair: Pair) -> None:
    iris_a, iris_b = pair.both("iris")
    first, second = [await pair.at_a("ruth").send("iris") for _ in range(2)]
    assert await iris_b.recv(1) == [first]
    await iris_a.ack(first)
    assert await iris_b.recv(5) == [second]
    await iris_a.get("POST", "/inbox/release", {"ids": [second]})
    assert await iris_b.recv(5) == [second]


@pytest.mark.requirement("shared.keys")
async def test_one_key_used_at_both_at_once_has_one_effect(pair: Pair) -> None:
    for number in range(10):
        body = {"to": "iris", "body": f"once {number}"}
        key = {"Idempotency-Key": f"k-{number}"}
        answers = await at_once(
            *(ruth.get("POST", "/messages", body, headers=key) for ruth in pair.both("ruth") * 3)
        )
        assert all(answer == answers[0] for answer in answers)
        taken = [await iris.recv(5) for iris in pair.both("iris")]
        assert taken == [[answers[0]["sent"][0]["id"]], []]


@pytest.mark.requirement("shared.keys")
async def test_one_key_with_two_requests_at_once_is_one_effect_and_one_conflict(pair: Pair) -> None:
    key = {"Idempotency-Key": "k"}
    answers = await at_once(
        *(
            ruth.ask("POST", "/messages", {"to": "iris", "body": str(number)}, headers=key)
            for number, ruth in enumerate(pair.both("ruth"))
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert len(await pair.at_a("iris").recv(5)) == 1


@pytest.mark.requirement("shared.limits")
@pytest.mark.parametrize(
    ("limit", "code"), [({"pair_per_minute": 7}, "pair_too_fast"), ({"max_pending": 7}, "inbox_full")]
)
async def test_a_limit_holds_over_both_to_the_message(
    database: str, operator_token: Path, tmp_path: Path, limit: dict[str, int], code: str
) -> None:
    settings = {
        "database_url": database,
        "operator_token_file": operator_token,
        "pair_per_minute": 0,
        **limit,
    }
    clock = TurnedClock()
    async with (
        running_broker(tmp_path / "a", clock, **settings) as a,
        running_broker(tmp_path / "b", clock, **settings) as b,
    ):
        await a.add("ruth")
        await a.add("iris")
        pair = Pair(a, b)
        answers = await at_once(
            *(ruth.ask("POST", "/messages", {"to": "iris", "body": "x"}) for ruth in pair.both("ruth") * 10)
        )
    assert Counter(answer.status_code for answer in answers) == {201: 7, 429: 13}
    assert {answer.json()["code"] for answer in answers if answer.is_error} == {code}


@pytest.mark.requirement("shared.limits")
async def test_limits_hold_over_brokers_whose_clocks_differ(
    database: str, operator_token: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "database_url": database,
        "operator_token_file": operator_token,
        "pair_per_minute": 4,
        "max_hops": 1,
    }
    ahead = TurnedClock(TurnedClock.now + 3)
    async with (
        running_broker(tmp_path / "a", ahead, **settings) as a,
        running_broker(tmp_path / "b", **settings) as b,
    ):
        for name in ("ruth", "iris", "otto"):
            await a.add(name)
        pair = Pair(a, b)
        both = pair.both("ruth")
        answers = [
            await both[number % 2].ask("POST", "/messages", {"to": "iris", "body": "x"})
            for number in range(8)
        ]
        assert [answer.status_code for answer in answers] == [201] * 4 + [429] * 4
        await pair.at_a("iris").recv(1)
        chained = await pair.at_b("iris").refused(429, "POST", "/messages", {"to": "otto", "body": "x"})
        assert chained["code"] == "too_many_hops"
        await a.operator.send("iris")
        await pair.at_b("iris").send("otto")


async def test_a_name_is_given_once_and_port_blocks_never_twice(pair: Pair) -> None:
    def body(name: str) -> dict[str, Any]:
        return {"name": name, "token_sha256": hash_token(new_token()), "parent": "ruth"}

    same = await at_once(
        *(broker.operator.ask("POST", "/agents", body("otto")) for broker in (pair.a, pair.b) * 3)
    )
    assert Counter(answer.status_code for answer in same) == {201: 1, 409: 5}
    await at_once(
        *(
            broker.operator.get("POST", "/agents", body(f"agent-{number}-{place}"))
            for number in range(5)
            for place, broker in enumerate((pair.a, pair.b))
        )
    )
    agents = await pair.b.operator.get("GET", "/agents")
    assert sorted(agent["port_block"] for agent in agents) == list(range(len(agents)))


@pytest.mark.requirement("shared.rights")
async def test_a_token_ends_at_the_other_brokers_next_request(pair: Pair) -> None:
    old = pair.at_b("iris")
    await old.get("GET", "/self")
    fresh = new_token()
    await pair.a.operator.get(
        "POST", "/agents/iris/token", {"token_sha256": hash_token(fresh), "grace_seconds": 600}
    )
    await old.get("GET", "/self")
    await pair.a.operator.get("DELETE", "/agents/iris/token/retiring")
    await old.refused(401, "GET", "/self")
    assert (await Peer(old.http, old.tree, fresh).get("GET", "/self"))["name"] == "iris"


@pytest.mark.requirement("shared.rights")
async def test_a_permission_taken_away_is_missing_at_the_other_brokers_next_request(pair: Pair) -> None:
    ruth = pair.at_b("ruth")
    for _ in range(5):
        await ruth.send("iris")
        await pair.a.permit("ruth", remove_groups=["messaging"])
        await ruth.refused(403, "POST", "/messages", {"to": "iris", "body": "x"})
        await pair.a.permit("ruth", add_groups=["messaging"])
