"""Restarts under the supervisor: calls wait for a restarting unit; a killed one fails the call it was in."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess, answer_of
from tests.support.claude import Era
from tests.support.hive import Hive
from tests.support.prose import ids_of, sent_id
from tests.support.waiting import eventually

both_eras = pytest.mark.parametrize("era", [MODERN, LEGACY])


@pytest.fixture
def ruth(hive: Hive) -> AgentAccess:
    agent = hive.agent("ruth")
    agent.drain()
    return agent


@pytest.fixture
def iris(hive: Hive) -> AgentAccess:
    agent = hive.agent("iris")
    agent.drain()
    return agent


@both_eras
@pytest.mark.requirement("restart.between-calls")
async def test_a_connected_client_notices_no_kill_between_calls(hive: Hive, era: Era) -> None:
    # One agent an era: the supervisor's pauses grow with each kill.
    name = "ruth" if era == MODERN else "iris"
    async with hive.agent(name).client(era) as client:
        for _ in range(2):
            assert not (await client.call_tool("recv", {})).is_error
            await anyio.to_thread.run_sync(hive.kill, f"hyperhive-{name}")
            with anyio.fail_after(20):
                assert not (await client.call_tool("recv", {})).is_error


@pytest.mark.requirement("restart.between-calls")
def test_a_call_waits_while_its_agent_is_restarted(hive: Hive, ruth: AgentAccess) -> None:
    before = hive.pid_of("hyperhive-ruth")
    hive.ctl("agent", "restart", "ruth", "--no-wait")
    eventually(lambda: hive.pids().get("hyperhive-ruth") != before, within=20, what="ruth is being restarted")
    ruth.call("recv").ok()


@pytest.mark.requirement("restart.during-call", "restart.wait-apart")
async def test_a_call_in_flight_fails_and_the_next_one_does_not(hive: Hive, ruth: AgentAccess) -> None:
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            failures: list[BaseException] = []

            async def call() -> None:
                try:
                    answer = await ruth.acall("recv")
                except* Exception as exc:  # noqa: BLE001 - whatever the transport makes of a reset
                    failures.append(exc)
                else:
                    assert answer.is_error, answer

            with hive.frozen("broker"):
                called = hive.log("hyperhive-ruth").count("tool_called")
                tasks.start_soon(call)
                wait = partial(eventually, lambda: hive.log("hyperhive-ruth").count("tool_called") > called)
                await anyio.to_thread.run_sync(wait)
                await anyio.to_thread.run_sync(hive.kill, "hyperhive-ruth")
        assert not (await ruth.acall("recv")).is_error
        assert failures


@pytest.mark.requirement("restart.broker")
async def test_a_broker_kill_is_waited_out_by_a_connected_client(
    hive: Hive, ruth: AgentAccess, iris: AgentAccess
) -> None:
    async with ruth.client() as client:
        before = sent_id(answer_of(await client.call_tool("send", {"to": "iris", "body": "one"})).ok())
        await anyio.to_thread.run_sync(hive.kill, "broker")
        with anyio.fail_after(40):
            answer = answer_of(await client.call_tool("send", {"to": "iris", "body": "two"}))
    assert ids_of((await iris.acall("recv", max=5)).ok()) == [before, sent_id(answer.ok())]


def test_a_broker_kill_leaves_the_agents_alone(hive: Hive) -> None:
    before = {name: pid for name, pid in hive.pids().items() if name != "broker"}
    hive.kill("broker")
    hive.pid_of("broker")
    eventually(lambda: hive.ctl("agent", "list"), within=20)
    assert {name: pid for name, pid in hive.pids().items() if name != "broker"} == before


def test_up_repeated_leaves_what_runs_alone(hive: Hive) -> None:
    before = hive.pids()
    hive.up("--agent", "ruth", "--agent", "iris")
    assert hive.pids() == before
