"""Approvals: asked once, decided once, told once; and the loose ends that the broker knows of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.settling import MAX_OF_AGENT_AN_HOUR, MAX_PENDING_OF_AGENT
from tests.integration.broker.running import Broker, Peer, running_broker

ASK = {"tool": "Write", "input": '{"file_path": "/etc/passwd"}', "reason": "to see", "deadline_seconds": 60}


@pytest.fixture
async def asker(broker: Broker, iris: Peer) -> Peer:
    """iris, whose permission questions go to the operator."""
    await broker.permit("iris", add_capabilities=["relay_permissions"])
    return iris


async def ask(agent: Peer, **more: Any) -> int:
    return int((await agent.get("POST", "/approvals", {**ASK, **more}))["id"])


async def events(agent: Peer) -> list[dict[str, Any]]:
    """The system messages that wait, acked then."""
    rows: list[dict[str, Any]] = []
    while taken := (await agent.get("POST", "/inbox/recv", {"max": 5}))["messages"]:
        rows += taken
        await agent.ack(taken[-1]["id"])
    return [json.loads(row["body"]) for row in rows if row["sender"] == "system"]


async def loose_ends(agent: Peer) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await agent.get("GET", "/loose-ends"))["loose_ends"]
    return rows


@pytest.mark.requirement("approvals.pinned", "approvals.told", "approvals.once")
@pytest.mark.parametrize(("verb", "status"), [("approve", "approved"), ("deny", "denied")])
async def test_a_question_is_shown_as_it_was_asked_and_answered_once(
    broker: Broker, asker: Peer, verb: str, status: str
) -> None:
    operator = broker.operator
    number = await ask(asker)
    (listed,) = (await operator.get("GET", "/approvals"))["approvals"]
    assert (listed["id"], listed["kind"], listed["agent"]) == (number, "tool_permission", "iris")
    assert (listed["status"], listed["content"]) == ("pending", None)
    shown = await operator.get("GET", f"/approvals/{number}")
    assert shown["content"] == {key: ASK[key] for key in ("tool", "input", "reason")}

    broker.clock.now += 7
    done = await operator.get("POST", f"/approvals/{number}/{verb}", {"note": "so be it"})
    assert (done["status"], done["note"]) == (status, "so be it")
    assert (done["decided_at"], done["decided_by"]) == (broker.clock.now, "operator")
    for again in ("approve", "deny"):
        error = await operator.refused(409, "POST", f"/approvals/{number}/{again}", {})
        assert error["code"] == "already_settled"
        assert f"was {status} at 2027-01-15 08:00:07 UTC by operator (so be it)" in error["message"]
    assert await events(asker) == [
        {
            "event": "ApprovalResolved",
            "id": number,
            "kind": "tool_permission",
            "status": status,
            "note": "so be it",
        }
    ]
    assert await events(broker.agents["ruth"]) == []
    assert (await operator.get("GET", "/approvals"))["approvals"] == []
    (kept,) = (await operator.get("GET", "/approvals?decided=true&agent=iris"))["approvals"]
    assert (kept["status"], (await operator.get("GET", f"/approvals/{number}"))["content"]) == (
        status,
        shown["content"],
    )


@pytest.mark.requirement("approvals.once")
async def test_of_many_decisions_at_once_one_counts(broker: Broker, asker: Peer) -> None:
    number = await ask(asker)
    statuses: list[int] = []

    async def decide(verb: str) -> None:
        statuses.append((await broker.operator.ask("POST", f"/approvals/{number}/{verb}", {})).status_code)

    async with anyio.create_task_group() as tasks:
        for turn in range(20):
            tasks.start_soon(decide, ("approve", "deny")[turn % 2])
    assert sorted(statuses) == [200] + [409] * 19
    assert len(await events(asker)) == 1


@pytest.mark.requirement("approvals.deadline", "approvals.told")
async def test_what_nobody_answers_in_time_is_denied(broker: Broker, asker: Peer) -> None:
    number = await ask(asker, deadline_seconds=30)
    await ask(asker, deadline_seconds=300)
    broker.clock.now += 30
    with anyio.fail_after(5):
        answer = await asker.get("GET", f"/approvals/{number}?wait_seconds=5")
    assert (answer["status"], answer["decided_by"]) == ("expired", "deadline")
    assert [one["status"] for one in await events(asker)] == ["expired"]
    error = await broker.operator.refused(409, "POST", f"/approvals/{number}/approve", {})
    assert "was expired" in error["message"]
    assert len((await broker.operator.get("GET", "/approvals"))["approvals"]) == 1


@pytest.mark.requirement("approvals.deadline")
async def test_an_answer_after_the_deadline_counts_for_nothing_however_late_it_is_noticed(
    broker: Broker, asker: Peer
) -> None:
    number = await ask(asker, deadline_seconds=30)
    broker.clock.now += 30
    await broker.operator.refused(409, "POST", f"/approvals/{number}/approve", {})
    assert (await asker.get("GET", f"/approvals/{number}"))["status"] == "expired"
    assert [one["status"] for one in await events(asker)] == ["expired"]


@pytest.mark.requirement("approvals.wait")
async def test_who_waits_hears_the_answer_at_once(broker: Broker, asker: Peer) -> None:
    number = await ask(asker)
    answers: list[str] = []

    async def wait() -> None:
        answers.append((await asker.get("GET", f"/approvals/{number}?wait_seconds=9"))["status"])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await asker.get("GET", f"/approvals/{number}")
            await broker.operator.get("POST", f"/approvals/{number}/approve", {})
    assert answers == ["approved"]
    assert (await asker.get("GET", f"/approvals/{await ask(asker)}?wait_seconds=0"))["status"] == "pending"


@pytest.mark.requirement("approvals.capability")
async def test_without_the_capability_nobody_is_asked(broker: Broker, iris: Peer) -> None:
    error = await iris.refused(403, "POST", "/approvals", ASK)
    assert error["code"] == "capability_missing"
    assert (await broker.operator.get("GET", "/approvals?decided=true"))["approvals"] == []


@pytest.mark.requirement("approvals.own-only")
async def test_nobody_sees_or_waits_for_anothers(broker: Broker, asker: Peer, ruth: Peer) -> None:
    number = await ask(asker)
    foreign = await ruth.refused(404, "GET", f"/approvals/{number}")
    absent = await ruth.refused(404, "GET", "/approvals/999")
    assert foreign["message"].replace(str(number), "999") == absent["message"]
    assert [row["kind"] for row in await loose_ends(ruth)] == []


@pytest.mark.requirement("approvals.limits")
async def test_one_question_too_many_is_refused(broker: Broker, asker: Peer) -> None:
    for _ in range(MAX_PENDING_OF_AGENT):
        number = await ask(asker)
    error = await asker.refused(429, "POST", "/approvals", ASK)
    assert error["code"] == "too_many_approvals"
    await broker.operator.get("POST", f"/approvals/{number}/deny", {})
    await ask(asker)


@pytest.mark.requirement("approvals.limits")
async def test_an_agent_that_asks_and_withdraws_in_a_loop_is_stopped(broker: Broker, ruth: Peer) -> None:
    await broker.permit("ruth", add_groups=["approvals"], add_capabilities=["relay_permissions"])
    for _ in range(MAX_OF_AGENT_AN_HOUR):
        await ruth.get("DELETE", f"/approvals/{await ask(ruth)}")
    error = await ruth.refused(429, "POST", "/approvals", ASK)
    assert (error["code"], error["details"]["retry_after_seconds"]) == ("approvals_too_fast", 3_600)
    broker.clock.now += 3_600
    await ask(ruth)


async def test_a_repeat_under_its_key_asks_nothing_twice(broker: Broker, asker: Peer) -> None:
    key = {"Idempotency-Key": "one"}
    first = await asker.get("POST", "/approvals", ASK, headers=key)
    assert await asker.get("POST", "/approvals", ASK, headers=key) == first
    await asker.refused(409, "POST", "/approvals", {**ASK, "tool": "Edit"}, headers=key)
    assert len((await broker.operator.get("GET", "/approvals"))["approvals"]) == 1


@pytest.mark.requirement("approvals.told")
async def test_a_full_inbox_is_told_all_the_same(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        ruth = await broker.add("ruth")
        await broker.permit("ruth", add_capabilities=["relay_permissions"])
        await broker.operator.send("ruth", "full")
        number = await ask(ruth)
        await broker.operator.get("POST", f"/approvals/{number}/deny", {})
        assert [one["id"] for one in await events(ruth)] == [number]


@pytest.mark.requirement("approvals.cancel", "planning.broker-enforces")
async def test_only_the_root_agent_with_the_group_cancels_and_its_own_alone(
    broker: Broker, asker: Peer, ruth: Peer
) -> None:
    await broker.permit("ruth", add_capabilities=["relay_permissions"])
    own, foreign = await ask(ruth), await ask(asker)
    await broker.permit("iris", add_groups=["approvals"])
    error = await asker.refused(403, "DELETE", f"/approvals/{foreign}")
    assert "only the root agent" in error["message"]
    error = await ruth.refused(403, "DELETE", f"/approvals/{own}")
    assert "`approvals`" in error["message"]

    await broker.permit("ruth", add_groups=["approvals"])
    for number in (foreign, 999):
        error = await ruth.refused(404, "DELETE", f"/approvals/{number}")
        assert error["message"] == f"you have no approval #{number}; nothing was changed"
    done = await ruth.get("DELETE", f"/approvals/{own}")
    assert (done["status"], done["decided_by"]) == ("cancelled", "ruth")
    await ruth.refused(409, "DELETE", f"/approvals/{own}")
    await broker.operator.refused(409, "POST", f"/approvals/{own}/approve", {})
    assert [row["id"] for row in (await broker.operator.get("GET", "/approvals"))["approvals"]] == [foreign]

    await broker.permit("ruth", remove_groups=["inbox"])
    await ruth.refused(403, "DELETE", f"/approvals/{own}")


@pytest.mark.requirement("identity.reborn")
async def test_questions_of_a_destroyed_agent_are_cancelled(broker: Broker, asker: Peer) -> None:
    number = await ask(asker)
    agent_id = (await broker.operator.get("GET", "/agents/iris"))["id"]
    event = {"event_id": "e1", "kind": "destroyed", "at": broker.clock.now, "agent_id": agent_id}
    await broker.operator.get("POST", "/driver/events", {"driver_id": "d", "events": [event]})
    error = await broker.operator.refused(409, "POST", f"/approvals/{number}/approve", {})
    assert "iris was destroyed" in error["message"]
    reborn = await broker.add("iris", parent="ruth")
    assert await loose_ends(reborn) == []
    await reborn.refused(404, "GET", f"/approvals/{number}")


@pytest.mark.requirement("loose-ends.shape")
async def test_loose_ends_are_the_callers_own_and_fresh(broker: Broker, asker: Peer, ruth: Peer) -> None:
    assert await loose_ends(asker) == []
    number = await ask(asker)
    reminder = await asker.get("POST", "/reminders", {"body": "two\nlines", "delay_seconds": 60})
    await ruth.send("iris")
    await ruth.send("iris")
    assert await loose_ends(asker) == [
        {"kind": "inbox", "id": 0, "undelivered": 2},
        {
            "kind": "approval",
            "id": number,
            "asks": "tool_permission",
            "summary": 'use Write: {"file_path": "/etc/passwd"}',
            "created_at": broker.clock.now,
            "deadline_at": broker.clock.now + 60,
        },
        {"kind": "reminder", "id": reminder["id"], "summary": "two lines", "due_at": reminder["due_at"]},
    ]
    assert await loose_ends(ruth) == []
    await asker.recv()
    await asker.get("DELETE", f"/reminders/{reminder['id']}")
    await broker.operator.get("POST", f"/approvals/{number}/deny", {})
    assert [row["undelivered"] for row in await loose_ends(asker)] == [1], "ApprovalResolved"
    await broker.permit("iris", remove_groups=["inbox"])
    await asker.refused(403, "GET", "/loose-ends")
