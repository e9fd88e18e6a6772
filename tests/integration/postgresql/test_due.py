"""Two brokers on one database: what falls due comes once, whichever broker it was set at, whoever leads."""

from __future__ import annotations

import anyio
import pytest

from services.broker.service.due import DueWorker
from services.broker.service.limits import Limits
from services.broker.service.reminders import DueReminders
from services.broker.store import Store
from tests.integration.broker.running import TurnedClock
from tests.integration.postgresql.conftest import Pair

pytestmark = pytest.mark.database("postgresql")
COUNT = 40


async def set_reminders(pair: Pair, *, delay: int) -> None:
    for number in range(COUNT):
        agent = pair.both("iris")[number % 2]
        await agent.get("POST", "/reminders", {"body": f"r{number}", "delay_seconds": delay})


async def received(pair: Pair, expected: int) -> list[str]:
    """The bodies of all that comes, once so many wait."""
    with anyio.fail_after(10):
        while (await pair.b.operator.get("GET", "/agents/iris"))["pending"] < expected:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    bodies: list[str] = []
    while rows := (await pair.at_b("iris").get("POST", "/inbox/recv", {"max": 5}))["messages"]:
        bodies += [row["body"] for row in rows]
    return bodies


@pytest.mark.requirement("due.shared")
async def test_reminders_set_at_either_broker_come_once(pair: Pair) -> None:
    await set_reminders(pair, delay=60)
    pair.a.clock.now += 60
    assert sorted(await received(pair, COUNT)) == sorted(f"r{number}" for number in range(COUNT))
    # One that is due sooner than all the leader knows of, set at the other broker.
    for agent in pair.both("iris"):
        await agent.get("POST", "/reminders", {"body": "soon", "delay_seconds": 1})
    pair.a.clock.now += 1
    assert await received(pair, 2) == ["soon", "soon"]


@pytest.mark.requirement("due.shared")
async def test_two_that_both_think_they_lead_deliver_each_once(pair: Pair, database: str) -> None:
    clock = TurnedClock(pair.a.clock.now)
    await set_reminders(pair, delay=60)
    clock.now += 60
    stores = [Store(database), Store(database)]
    for store in stores:
        await store.open()
    workers = [DueWorker(store, [DueReminders(Limits())], clock=clock) for store in stores]
    async with anyio.create_task_group() as tasks:
        for worker in workers:
            tasks.start_soon(worker.fire_all)
    for store in stores:
        await store.close()
    assert sorted(await received(pair, COUNT)) == sorted(f"r{number}" for number in range(COUNT))


@pytest.mark.requirement("due.shared", "approvals.once")
async def test_a_schedule_asked_for_at_one_and_approved_at_the_other_fires_once(pair: Pair) -> None:
    await pair.a.permit("iris", add_groups=["scheduling"])
    ours, theirs = pair.both("iris")
    at = pair.a.clock.now + 60
    body = {"targets": ["iris"], "body": "Report.", "first_fire_at_unix": at, "interval_seconds": 60}
    schedule = await ours.get("POST", "/schedules", body)
    path = f"/approvals/{schedule['approval']}"
    waited: list[str] = []

    async def wait() -> None:
        waited.append((await ours.get("GET", f"{path}?wait_seconds=9"))["status"])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await theirs.get("GET", path)
            await pair.b.operator.get("POST", f"{path}/approve", {})
    assert waited == ["approved"]
    await pair.a.operator.refused(409, "POST", f"{path}/deny", {})
    pair.a.clock.now = at
    assert (await received(pair, 2))[1:] == ["Report."]
    await theirs.get("POST", f"/schedules/{schedule['id']}/fire")
    pair.a.clock.now += 60
    assert await received(pair, 2) == ["Report.", "Report."]
