"""Jobs: queued by the operator, handed to one driver, joined or refused when another is under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.broker.running import Broker, running_broker
from tests.integration.lifecycle.driver import Driver, event


async def ask(broker: Broker, kind: str, agent: str = "iris") -> dict[str, Any]:
    job: dict[str, Any] = await broker.operator.get("POST", f"/agents/{agent}/jobs", {"kind": kind})
    return job


async def get_iris(broker: Broker) -> dict[str, Any]:
    agent: dict[str, Any] = await broker.operator.get("GET", "/agents/iris")
    return agent


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("start", True), ("restart", True), ("stop", False), ("kill", False), ("destroy", False)],
)
async def test_a_job_is_queued_and_says_what_is_wanted(broker: Broker, kind: str, wanted: bool) -> None:
    job = await ask(broker, kind)

    iris = await get_iris(broker)
    assert job == {
        "id": job["id"],
        "kind": kind,
        "agent": "iris",
        "agent_id": iris["id"],
        "port_block": iris["port_block"],
        "state": "queued",
        "created_at": broker.clock.now,
        "finished_at": None,
        "error": None,
    }
    assert iris["wanted"] is wanted
    assert await broker.operator.get("GET", "/jobs") == [job]


async def test_a_driver_gets_jobs_in_order_and_each_once(broker: Broker, driver: Driver) -> None:
    first, second = await ask(broker, "start", "iris"), await ask(broker, "start", "ruth")

    claimed = [await driver.claim() for _ in range(3)]

    assert [job and job["id"] for job in claimed] == [first["id"], second["id"], None]
    assert (await broker.operator.get("GET", f"/jobs/{first['id']}"))["state"] == "claimed"


async def test_of_two_waiting_claims_one_gets_the_job(broker: Broker, driver: Driver) -> None:
    got: list[dict[str, Any] | None] = []

    async def claim() -> None:
        got.append(await driver.claim(wait_seconds=2))

    with anyio.fail_after(8):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            tasks.start_soon(claim)
            await wait_for_driver(broker)
            await ask(broker, "start")

    assert sorted(job is None for job in got) == [False, True]


async def test_a_waiting_claim_is_woken_at_once(broker: Broker, driver: Driver) -> None:
    async with anyio.create_task_group() as tasks:

        async def claim() -> None:
            assert await driver.claim(wait_seconds=30)

        tasks.start_soon(claim)
        await wait_for_driver(broker)
        with anyio.fail_after(5):
            await ask(broker, "start")


async def wait_for_driver(broker: Broker) -> None:
    with anyio.fail_after(5):
        while not (await broker.operator.get("GET", "/hive"))["driver_connected"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_new_driver_takes_over_what_the_earlier_had(broker: Broker, driver: Driver) -> None:
    await ask(broker, "start")
    first = await driver.claim()

    later = Driver(broker)

    assert await later.claim() == first
    refusal = await broker.operator.refused(409, "POST", "/driver/claim", driver.claim_request())
    assert refusal["code"] == "driver_superseded"
    assert await later.claim() is None


async def test_a_waiting_claim_of_an_earlier_driver_takes_nothing(broker: Broker, driver: Driver) -> None:
    statuses: list[int] = []

    async def claim() -> None:
        statuses.append(
            (await broker.operator.ask("POST", "/driver/claim", driver.claim_request(30))).status_code
        )

    later = Driver(broker)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            await wait_for_driver(broker)
            assert await later.claim() is None
            job = await ask(broker, "start")
    assert statuses == [409]
    assert (await later.claim() or {})["id"] == job["id"]


async def test_a_job_of_the_same_kind_is_joined(broker: Broker, driver: Driver) -> None:
    job = await ask(broker, "stop")
    assert await ask(broker, "stop") == job
    await driver.claim()

    assert (await ask(broker, "stop"))["id"] == job["id"]


async def test_another_job_waits_for_nobody_and_is_refused(broker: Broker) -> None:
    job = await ask(broker, "stop")

    refusal = await broker.operator.refused(409, "POST", "/agents/iris/jobs", {"kind": "start"})

    assert refusal["code"] == "job_under_way"
    assert refusal["details"] == {"job": job["id"], "kind": "stop", "state": "queued"}
    assert (await get_iris(broker))["wanted"] is False


@pytest.mark.parametrize("forcible", ["kill", "destroy"])
async def test_what_ends_everything_is_queued_behind(broker: Broker, driver: Driver, forcible: str) -> None:
    await ask(broker, "start")
    await ask(broker, forcible)

    assert [(await driver.claim() or {})["kind"] for _ in range(2)] == ["start", forcible]


async def test_nothing_comes_behind_a_destroy(broker: Broker) -> None:
    destroy = await ask(broker, "destroy")

    for kind in ("start", "stop", "kill", "restart"):
        await broker.operator.refused(409, "POST", "/agents/iris/jobs", {"kind": kind})
    assert await ask(broker, "destroy") == destroy


async def test_the_root_agent_with_children_is_not_destroyed(broker: Broker) -> None:
    refusal = await broker.operator.refused(409, "POST", "/agents/ruth/jobs", {"kind": "destroy"})

    assert refusal["code"] == "root_has_children"
    assert "iris" in refusal["message"]


async def test_an_end_is_waited_for(broker: Broker, driver: Driver) -> None:
    job = await ask(broker, "start")
    await driver.claim()
    ended: list[dict[str, Any]] = []

    async def wait() -> None:
        ended.append(await broker.operator.get("GET", f"/jobs/{job['id']}?wait_seconds=30"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await driver.report(event(job["agent_id"], "job_failed", job_id=job["id"], error="no port"))

    assert (ended[0]["state"], ended[0]["error"], ended[0]["finished_at"]) == (
        "failed",
        "no port",
        1_800_000_100,
    )


async def test_a_job_ends_once(broker: Broker, driver: Driver) -> None:
    job = await driver.perform("iris", "start", "started")
    await driver.report(event(job["agent_id"], "job_failed", job_id=job["id"], error="late"))

    assert (await broker.operator.get("GET", f"/jobs/{job['id']}"))["state"] == "done"


async def test_an_end_under_another_agents_id_is_ignored(broker: Broker, driver: Driver) -> None:
    job = await ask(broker, "start")
    await driver.report(event(job["agent_id"] + 1, "job_done", job_id=job["id"]))
    await driver.report(event(job["agent_id"], "job_done", job_id=job["id"] + 1))
    await driver.report(event(job["agent_id"], "job_done"))

    assert (await broker.operator.get("GET", f"/jobs/{job['id']}"))["state"] == "queued"


async def test_a_stop_of_the_broker_lets_those_who_wait_go(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.add("ruth")
        job = await ask(broker, "start", "ruth")
        driver = Driver(broker)
        await driver.claim()

        async def claim() -> None:
            assert await driver.claim(wait_seconds=30) is None

        async def wait() -> None:
            found = await broker.operator.get("GET", f"/jobs/{job['id']}?wait_seconds=30")
            assert found["state"] == "claimed"

        with anyio.fail_after(8):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(claim)
                tasks.start_soon(wait)
                # Answers to later requests: by then the two are waiting.
                for _ in range(10):
                    await broker.operator.get("GET", "/hive")
                broker.app.state.stop()


async def test_jobs_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.add("ruth")
        queued = await ask(broker, "start", "ruth")
        driver = Driver(broker)
        await driver.claim()
    async with running_broker(tmp_path) as broker:
        again = Driver(broker, driver_id=driver.driver_id)
        assert await again.claim() is None
        await again.report(event(queued["agent_id"], "job_done", job_id=queued["id"]))

        assert (await broker.operator.get("GET", f"/jobs/{queued['id']}"))["state"] == "done"


async def test_an_unknown_job_and_agent_are_not_found(broker: Broker) -> None:
    await broker.operator.refused(404, "GET", "/jobs/99")
    await broker.operator.refused(404, "POST", "/agents/nobody/jobs", {"kind": "start"})
    await broker.operator.refused(422, "POST", "/agents/iris/jobs", {"kind": "explode"})
    await broker.operator.refused(422, "GET", "/jobs/1?wait_seconds=31")


async def test_the_operator_sees_since_when_notices_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "without-nats") as broker:
        await broker.add("ruth")
        assert (await broker.operator.get("GET", "/hive"))["notices_oldest_at"] is None
        driver, begun = Driver(broker), broker.clock.now
        await driver.saw("ruth", "started", at=begun)
        await driver.saw("ruth", "stopped", at=begun + 60)
        hive = await broker.operator.get("GET", "/hive")
        assert (hive["notices_waiting"], hive["notices_oldest_at"]) == (2, begun)
