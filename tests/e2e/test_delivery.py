"""Delivery across crashes: what was not acked comes again in its order, what was acked never."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio
import anyio.to_thread
import pytest
from mcp import Client

from tests.support.access import LEGACY, MODERN, AgentAccess, Answer, answer_of
from tests.support.claude import Era
from tests.support.prose import ids_of, rows_of, sent_id
from tests.support.units import Unit, Units
from tests.support.waiting import eventually


@pytest.mark.requirement("delivery.redelivered")
def test_rows_not_acked_come_again_after_a_crash_of_the_daemon(units: Units, iris: AgentAccess) -> None:
    acked, handed, waiting = (
        units.operator.send("iris", body) for body in ("done", "half done", "untouched")
    )
    assert ids_of(iris.call("recv", max=2).ok()) == [acked, handed]
    iris.call("ack_until", up_to=acked).ok()
    units.surfaces["iris"].restart()
    rows = rows_of(iris.call("recv", max=5).ok())
    assert [row.id for row in rows] == [handed, waiting]
    assert "handed out 2 times" in rows[0].facts


@pytest.mark.requirement("delivery.redelivered")
def test_without_a_crash_a_row_is_handed_out_once(units: Units, iris: AgentAccess) -> None:
    number = units.operator.send("iris", "once")
    assert ids_of(iris.call("recv").ok()) == [number]
    assert ids_of(iris.call("recv").ok()) == []


@pytest.mark.requirement("delivery.order-kept")
def test_order_and_urgency_hold_across_crashes(units: Units, iris: AgentAccess) -> None:
    send = units.operator.send
    first, second = send("iris", "one"), send("iris", "two")
    urgent = send("iris", "now", urgent=True)
    assert ids_of(iris.call("recv", max=2).ok()) == [urgent, first]
    units.surfaces["iris"].restart()
    later = send("iris", "now too", urgent=True)
    units.surfaces["iris"].restart()
    assert ids_of(iris.call("recv", max=5).ok()) == [urgent, later, first, second]


@pytest.mark.requirement("ack.urgent-gap", "delivery.order-kept")
def test_an_urgent_row_acks_nothing_unseen_across_a_crash(units: Units, iris: AgentAccess) -> None:
    unseen = units.operator.send("iris", "calm")
    urgent = units.operator.send("iris", "now", urgent=True)
    assert ids_of(iris.call("recv").ok()) == [urgent]
    units.surfaces["iris"].restart()
    iris.call("ack_until", up_to=urgent).ok()
    assert ids_of(iris.call("recv", max=5).ok()) == [unseen]


@pytest.mark.requirement("restart.broker")
def test_a_broker_kill_loses_nothing_and_needs_no_restart_of_a_surface(
    units: Units, ruth: AgentAccess, iris: AgentAccess
) -> None:
    before = sent_id(ruth.call("send", to="iris", body="before").ok())
    boot = units.surfaces["ruth"].pid
    units.broker.kill()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ruth.call, "send", to="iris", body="during")
        units.broker.start()
        during = sent_id(waiting.result(40).ok())
    assert ids_of(iris.call("recv", max=5).ok()) == [before, during]
    assert units.surfaces["ruth"].pid == boot


@pytest.mark.requirement("restart.broker", "delivery.durable")
def test_what_send_answered_survives_a_kill_at_once(
    units: Units, ruth: AgentAccess, iris: AgentAccess
) -> None:
    for index in range(3):
        number = sent_id(ruth.call("send", to="iris", body=f"{index}").ok())
        units.broker.restart()
        assert ids_of(iris.call("recv").ok()) == [number]


@pytest.mark.requirement("restart.wait-apart")
def test_a_call_that_waits_holds_up_no_other_call(units: Units, ruth: AgentAccess, iris: AgentAccess) -> None:
    with ThreadPoolExecutor(1) as pool:
        with units.broker.frozen():
            waiting = pool.submit(ruth.call, "send", to="iris", body="patience")
            assert ruth.list_tools()
            ruth.call("set_status", text="still here").ok()
            assert not waiting.done()
        number = sent_id(waiting.result(40).ok())
    assert ids_of(iris.call("recv").ok()) == [number]


@pytest.mark.requirement("delivery.given-back")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_rows_for_a_caller_who_went_away_come_again(units: Units, iris: AgentAccess, era: Era) -> None:
    number = units.operator.send("iris", "anybody there?")
    called = units.surfaces["iris"].log_text().count("tool_called")
    with units.broker.frozen():
        async with iris.client(era) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "recv", {})
            await logged(units.surfaces["iris"], "tool_called", called)
            tasks.cancel_scope.cancel()
    answer = partial(eventually, lambda: ids_of(iris.call("recv").ok()), within=10)
    assert await anyio.to_thread.run_sync(answer) == [number]


@pytest.mark.requirement("restart.drained")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_stopping_surface_answers_the_calls_it_has(
    units: Units, ruth: AgentAccess, iris: AgentAccess, era: Era
) -> None:
    surface = units.surfaces["ruth"]
    answers: list[Answer] = []

    async def call(client: Client) -> None:
        answers.append(answer_of(await client.call_tool("send", {"to": "iris", "body": "last words"})))

    called, stopped = (surface.log_text().count(event) for event in ("tool_called", "stop_started"))
    with anyio.fail_after(20):
        async with ruth.client(era) as client, anyio.create_task_group() as tasks:
            await client.list_tools()  # else the client asks for it after its first call
            with units.broker.frozen():
                tasks.start_soon(call, client)
                await logged(surface, "tool_called", called)
                surface.signal(signal.SIGTERM)
                await logged(surface, "stop_started", stopped)
                assert await anyio.to_thread.run_sync(surface.runs_for, 1.5), "it did not wait for its call"
        code = await anyio.to_thread.run_sync(surface.wait)
    surface.start()
    assert (code, ids_of((await iris.acall("recv")).ok())) == (0, [sent_id(answers[0].ok())])


async def logged(unit: Unit, event: str, before: int) -> None:
    """Wait until the unit has logged an event more than `before` times."""
    probe = partial(eventually, lambda: unit.log_text().count(event) > before, what=f"{event} is logged")
    await anyio.to_thread.run_sync(probe)


@pytest.mark.requirement("delivery.redelivered", "delivery.one-hand")
def test_two_receivers_at_once_get_every_row_once(units: Units, iris: AgentAccess) -> None:
    numbers = [units.operator.send("iris", f"{index}") for index in range(10)]
    gate = threading.Barrier(2)

    def take() -> list[int]:
        gate.wait(10)
        return [number for _ in range(2) for number in ids_of(iris.call("recv", max=5).ok())]

    with ThreadPoolExecutor(2) as pool:
        taken = [number for future in [pool.submit(take), pool.submit(take)] for number in future.result(40)]
    assert sorted(taken) == numbers
