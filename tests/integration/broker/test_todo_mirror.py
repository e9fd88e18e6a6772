"""What a daemon reports of its todos is there for the operator, and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.broker.running import BOOTS, Broker, Peer
from tests.integration.lifecycle.driver import Driver

pytestmark = pytest.mark.requirement("todos.mirrored")

TODO = {"id": 7, "subsystem": "ci", "key": "k", "summary": "red", "revision": 9, "updated_at": 5}


async def report(peer: Peer, *todos: dict[str, Any], as_of: int = 1_700_000_000, **more: Any) -> Any:
    mirror = {"todos": todos, "total": len(todos), "as_of": as_of}
    return await peer.ask(
        "POST", "/reports", {"unit": "hyperhive", "boot": BOOTS[0], "todos": mirror, **more}
    )


async def shown(broker: Broker, name: str = "iris") -> Any:
    return await broker.operator.get("GET", f"/agents/{name}/todos")


async def test_the_last_report_counts_and_stays_when_the_daemon_is_gone(broker: Broker, iris: Peer) -> None:
    assert await shown(broker) == {"todos": [], "total": 0, "connected": False}
    async with broker.connect(iris) as stream:
        await stream.next_grants()
        await report(iris, TODO, TODO | {"id": 8, "detail": "log"})
        await report(iris, TODO)
        page = {"todos": [TODO], "total": 1, "as_of": 1_700_000_000}
        assert await shown(broker) == page | {"connected": True}
    assert await shown(broker, "ruth") == {"todos": [], "total": 0, "connected": False}
    await broker.operator.refused(404, "GET", "/agents/nobody/todos")
    assert (await iris.ask("GET", "/agents/iris/todos")).status_code == 404


async def test_no_report_is_from_the_future_or_from_an_earlier_start(broker: Broker, iris: Peer) -> None:
    await report(iris, TODO, as_of=broker.clock.now + 1_000)
    assert (await shown(broker))["as_of"] == broker.clock.now
    async with broker.connect(iris, BOOTS[1]) as stream:
        await stream.next_grants()
        assert (await report(iris)).status_code == 409
        assert (await report(iris, unit="bash", boot=BOOTS[5])).status_code == 204
        assert (await shown(broker))["total"] == 1


@pytest.mark.parametrize(
    "wrong", [{"summary": "x" * 501}, {"detail": "x" * 501}, {"key": ""}, {"id": 0}, {"more": 1}]
)
async def test_reports_are_bounded(iris: Peer, wrong: dict[str, Any]) -> None:
    assert (await report(iris, TODO | wrong)).status_code == 422
    assert (await report(iris, *[TODO] * 101)).status_code == 422


async def test_a_later_agent_of_the_name_has_none_of_them(broker: Broker, iris: Peer) -> None:
    await report(iris, TODO)
    await Driver(broker).saw("iris", "destroyed")
    await broker.add("iris", parent="ruth")
    assert (await shown(broker))["todos"] == []
