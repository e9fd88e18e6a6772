"""The broker's sockets, one an agent: waking it under a label that can be taken for nobody."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.broker.running import Broker, running_broker
from tests.integration.lifecycle.driver import Driver
from tests.support.line_client import ask


@pytest.fixture
async def near() -> AsyncIterator[Broker]:
    """A broker in a directory whose path is short enough for sockets, with ruth and iris."""
    with tempfile.TemporaryDirectory(prefix="hh-") as root:
        async with running_broker(Path(root), max_pending=3) as broker:
            await broker.add("ruth")
            await broker.add("iris", parent="ruth")
            await see(socket_of(broker, "iris"))
            yield broker


def socket_of(broker: Broker, name: str) -> Path:
    return broker.settings.layout.agent(name).core_socket


async def see(path: Path, *, there: bool = True) -> None:
    with anyio.fail_after(10):
        while path.exists() != there:  # noqa: ASYNC110, ASYNC240 - a file tells nobody
            await anyio.sleep(0.01)


async def wake(broker: Broker, name: str = "iris", label: object = "ci", **fields: Any) -> Any:
    """What `wake` is answered with."""
    path, request = socket_of(broker, name), {"from": label, "body": "main is red", **fields}
    return await anyio.to_thread.run_sync(lambda: ask(path, "wake", **request))


async def inbox(broker: Broker, name: str = "iris") -> list[dict[str, Any]]:
    page = await broker.operator.get("GET", f"/agents/{name}/inbox")
    return list(page["messages"])


@pytest.mark.requirement("core-socket.wake")
async def test_a_wake_lands_in_the_inbox_of_that_agent_alone(near: Broker) -> None:
    path = socket_of(near, "iris")
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    async with near.connect(near.agents["iris"]) as stream:
        assert await stream.next_pending() == 0
        answer = await wake(near)
        assert await stream.next_pending() == 1

    (row,) = await inbox(near)
    assert answer == {"ok": True, "id": row["id"]}
    assert (row["sender"], row["recipient"], row["body"]) == ("ci", "iris", "main is red")
    assert row["origin"] == "wake"
    assert await inbox(near, "ruth") == []
    assert await near.agents["iris"].recv() == [row["id"]]


@pytest.mark.requirement("core-socket.labels")
@pytest.mark.parametrize(
    "label",
    [
        *("operator", "system", "all", "hive", "graceful-stop", "ruth", "iris"),
        *("r.u.t.h", "ir_is", "sys-tem", "o:p:e:r:a:t:o:r", "gracefulstop", "hi.ve"),
        *("operator.", "system::", "graceful_stop", "ruth-", "iris:", "Operator", "ruth "),
        *("", "-ruth", "r\u0443th", "a" * 65, "two words", "a\nb", None, 7),
    ],
)
async def test_a_label_that_imitates_somebody_is_refused(near: Broker, label: object) -> None:
    answer = await wake(near, label=label)

    assert answer["error"]["code"] in {"invalid_input", "label_taken"}
    assert "from" in answer["error"]["message"]
    assert await inbox(near) == []
    body = {"from": label, "body": "x"}
    assert (await near.operator.ask("POST", "/agents/iris/wake", body)).status_code == 422


@pytest.mark.requirement("core-socket.labels")
async def test_a_refused_imitation_is_in_the_audit_under_the_socket_it_came_by(near: Broker) -> None:
    for label in ("operator", "ru.th"):
        assert (await wake(near, label=label))["error"]["code"] == "label_taken"
    await near.operator.refused(422, "POST", "/agents/iris/wake", {"from": "system", "body": "x"})
    rows = (await near.operator.get("GET", "/refusals?agent=iris"))["refusals"]
    assert [(row["sender"], row["recipient"], row["code"], row["count"]) for row in rows] == [
        ("wake:iris", "iris", "label_taken", 2),
        ("wake:operator", "iris", "label_taken", 1),
    ]
    assert "ru.th is the name of an agent, or looks like that of ruth" in rows[0]["reason"]


@pytest.mark.requirement("core-socket.labels")
async def test_an_agent_s_own_separators_do_not_count_either(near: Broker) -> None:
    await near.add("build-bot", parent="ruth")
    for label in ("buildbot", "build.bot", "b-uild_bot"):
        assert (await wake(near, label=label))["error"]["code"] == "label_taken"
    assert (await wake(near, label="build.bots"))["ok"]


@pytest.mark.requirement("core-socket.labels")
async def test_a_label_is_taken_from_the_moment_an_agent_is_named_so(near: Broker) -> None:
    assert (await wake(near, label="milo"))["ok"]
    await near.add("milo", parent="ruth")

    assert (await wake(near, label="milo"))["error"]["code"] == "label_taken"


@pytest.mark.requirement("core-socket.keyed")
async def test_a_repeat_under_its_key_is_stored_once(near: Broker) -> None:
    first = await wake(near, idempotency_key="k1")
    assert await wake(near, idempotency_key="k1") == first
    assert (await wake(near, idempotency_key="k1", body="other"))["error"]["code"] == "key_reused"
    assert (await wake(near, "ruth", idempotency_key="k1"))["id"] != first["id"]
    assert len(await inbox(near)) == 1
    assert (await wake(near, idempotency_key="no key!"))["error"]["code"] == "invalid_input"


async def test_limits_are_those_of_messages(near: Broker) -> None:
    assert (await wake(near, body=" "))["error"]["code"] == "invalid_input"
    assert (await wake(near, body="x" * 65_537))["error"]["code"] == "body_too_large"
    for _ in range(3):
        assert (await wake(near))["ok"]
    assert (await wake(near))["error"]["code"] == "inbox_full"
    assert len(await inbox(near)) == 3
    with anyio.fail_after(10):
        while not (rows := (await near.operator.get("GET", "/refusals"))["refusals"]):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert {row["sender"] for row in rows} == {"ci"}


async def test_nothing_but_wake_is_known_there(near: Broker) -> None:
    answer = await anyio.to_thread.run_sync(lambda: ask(socket_of(near, "iris"), "upsert_todo"))

    assert answer["error"] == {"code": "unknown_command", "message": "`cmd` must be one of: wake"}


@pytest.mark.requirement("core-socket.follows")
async def test_sockets_come_and_go_with_their_agents(near: Broker) -> None:
    await near.add("milo", parent="ruth")
    path = socket_of(near, "milo")
    await see(path)
    await wake(near, "milo")
    await Driver(near).saw("milo", "destroyed")
    await see(path, there=False)

    await near.add("milo", parent="ruth")
    await see(path)
    assert await inbox(near, "milo") == []
    assert (await wake(near, "milo"))["ok"]
    assert len(await inbox(near, "milo")) == 1


@pytest.mark.requirement("core-socket.follows", "sockets.path-length")
async def test_a_path_that_is_too_long_costs_that_socket_alone(tmp_path: Path) -> None:
    root = tmp_path / ("d" * 100)
    async with running_broker(root) as broker:
        await broker.add("ruth")
        row = await broker.operator.get("POST", "/messages", {"to": "ruth", "body": "x"})
        assert row["sent"][0]["id"] == 1
        assert not socket_of(broker, "ruth").exists()
