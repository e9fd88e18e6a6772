"""Background tasks: what surfaces report is there for the operator, who can have one ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from services.broker.service import tasks as module
from tests.integration.broker.running import BOOTS, Broker, Peer, Stream
from tests.integration.lifecycle.driver import Driver

RUNNING: dict[str, Any] = {
    "id": "k3v9x2mq",
    "state": "running",
    "title": "make",
    "created_at": 5,
    "started_at": 6,
}
WAITING: dict[str, Any] = {"id": "k3v9x2mr", "state": "pending", "title": "make test", "created_at": 6}
ENDED: dict[str, Any] = {
    "id": "k3v9x2ms",
    "state": "done",
    "title": "true",
    "created_at": 1,
    "started_at": 1,
    "ended_at": 2,
}
AS_OF = 1_700_000_000


async def report(peer: Peer, *tasks: dict[str, Any], unit: str = "bash", **more: Any) -> Any:
    mirror = {"tasks": tasks, "running": 1, "pending": 0, "as_of": AS_OF} | more
    return await peer.ask("POST", "/reports", {"unit": unit, "boot": BOOTS[0], "tasks": mirror})


async def answer(peer: Peer, task: str, outcome: str) -> None:
    kill = {"id": task, "outcome": outcome}
    await peer.get("POST", "/reports", {"unit": "bash", "boot": BOOTS[0], "kills": [kill]})


async def ids(broker: Broker, query: str = "") -> list[str]:
    return [task["id"] for task in (await broker.operator.get("GET", f"/tasks{query}"))["tasks"]]


@asynccontextmanager
async def killing(broker: Broker, task: str) -> AsyncIterator[list[Any]]:
    """The operator waits for the end of a task of iris meanwhile; then the list has the answer."""
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await broker.operator.ask("POST", f"/agents/iris/tasks/{task}/kill"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            yield answers


@asynccontextmanager
async def bash(broker: Broker, iris: Peer) -> AsyncIterator[Stream]:
    async with broker.connect(iris, unit="bash") as stream:
        await stream.next_grants()
        yield stream


@pytest.mark.requirement("tasks.mirrored")
async def test_the_last_report_counts_and_stays_when_the_surface_is_gone(broker: Broker, iris: Peer) -> None:
    assert await broker.operator.get("GET", "/agents/iris/tasks") == {
        "tasks": [],
        "surfaces": [],
        "more": False,
    }
    async with bash(broker, iris):
        await report(iris, RUNNING)
        await report(iris, ENDED, WAITING, RUNNING, pending=1)
        page = await broker.operator.get("GET", "/agents/iris/tasks?include_ended=true")
    whose = {"agent": "iris", "surface": "bash"}
    assert page["tasks"] == [WAITING | whose, RUNNING | whose, ENDED | whose]
    seen = {"running": 1, "pending": 1, "as_of": AS_OF}
    assert page["surfaces"] == [whose | seen | {"connected": True}]
    assert await ids(broker) == [WAITING["id"], RUNNING["id"]]
    assert await ids(broker, "?limit=1") == [WAITING["id"]]
    await broker.operator.refused(404, "GET", "/agents/nobody/tasks")
    assert (await broker.operator.get("GET", "/agents/ruth/tasks"))["tasks"] == []


@pytest.mark.requirement("tasks.mirrored")
async def test_each_surface_speaks_for_itself_and_hyperhive_has_no_tasks(broker: Broker, iris: Peer) -> None:
    await report(iris, RUNNING)
    await report(iris, WAITING, unit="subagent")
    await report(iris, ENDED, unit="hyperhive")
    assert await ids(broker, "?include_ended=true") == [RUNNING["id"], WAITING["id"]]
    async with broker.connect(iris, BOOTS[1], unit="bash") as stream:
        await stream.next_grants()
        assert (await report(iris)).status_code == 409
    await Driver(broker).saw("iris", "destroyed")
    assert await ids(broker) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": "x" * 201},
        {"id": "short"},
        {"id": "../../etc"},
        {"state": "lost"},
        {"signal": 0},
        {"more": 1},
    ],
)
async def test_reports_are_bounded(iris: Peer, wrong: dict[str, Any]) -> None:
    assert (await report(iris, RUNNING | wrong)).status_code == 422
    assert (await report(iris, *[RUNNING] * 201)).status_code == 422


@pytest.mark.requirement("tasks.kill")
async def test_a_kill_goes_down_the_stream_and_its_answer_comes_back(broker: Broker, iris: Peer) -> None:
    async with bash(broker, iris) as stream:
        await report(iris, RUNNING)
        async with killing(broker, RUNNING["id"]) as answers:
            assert await stream.next_kill() == RUNNING["id"]
            await answer(iris, RUNNING["id"], "killing")
    assert answers[0].json() == {
        "agent": "iris",
        "id": RUNNING["id"],
        "surface": "bash",
        "delivered": True,
        "outcome": "killing",
    }


@pytest.mark.requirement("tasks.kill")
async def test_a_task_that_was_not_reported_yet_is_asked_for_and_one_that_nobody_knows_is_named(
    broker: Broker, iris: Peer
) -> None:
    async with bash(broker, iris) as stream:
        async with killing(broker, "justborn") as answers:
            await answer(iris, await stream.next_kill(), "killing")
        assert answers[0].json()["surface"] == "bash"
        async with killing(broker, "nonesuch") as answers:
            await answer(iris, await stream.next_kill(), "unknown")
        assert answers[0].status_code == 404
        assert "hivectl tasks iris" in answers[0].json()["message"]


@pytest.mark.requirement("tasks.kill")
async def test_what_cannot_be_delivered_is_said_and_not_delivered_later(
    broker: Broker, iris: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", 0)
    await report(iris, RUNNING, ENDED)
    async with killing(broker, RUNNING["id"]) as answers:
        pass
    assert answers[0].json() == {"agent": "iris", "id": RUNNING["id"], "surface": "bash", "delivered": False}
    async with killing(broker, ENDED["id"]) as answers:
        pass
    assert (answers[0].json()["delivered"], answers[0].json()["outcome"]) == (False, "over")
    async with bash(broker, iris) as stream:
        await report(iris, RUNNING | {"id": "another1"})
        async with killing(broker, "another1"):
            assert await stream.next_kill() == "another1"
            await answer(iris, "another1", "over")


async def test_the_surface_of_another_agent_answers_for_itself_alone(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    async with bash(broker, iris) as stream:
        await report(iris, RUNNING)
        async with killing(broker, RUNNING["id"]) as answers:
            await stream.next_kill()
            await answer(ruth, RUNNING["id"], "over")
            await iris.get("POST", "/reports", {"unit": "bash", "boot": BOOTS[0], "grants_version": 1})
            assert answers == []
            await answer(iris, RUNNING["id"], "killing")
    assert answers[0].json()["outcome"] == "killing"


async def test_ids_are_checked_and_agents_have_no_such_route(broker: Broker, iris: Peer) -> None:
    await broker.operator.refused(422, "POST", "/agents/iris/tasks/..x..xx/kill")
    await broker.operator.refused(404, "POST", "/agents/nobody/tasks/k3v9x2mq/kill")
    assert (await iris.ask("GET", "/tasks")).status_code == 404
    assert (await iris.ask("POST", "/agents/iris/tasks/k3v9x2mq/kill")).status_code == 404
