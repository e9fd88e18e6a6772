"""What the operator allows: enforced on the broker's own routes, pushed to running daemons."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.broker.running import BOOTS, Broker, Peer


@pytest.mark.parametrize(
    ("group", "method", "path", "body"),
    [
        ("messaging", "POST", "/messages", {"to": "iris", "body": "x"}),
        ("messaging", "GET", "/messages/1", None),
        ("messaging", "POST", "/inbox/recv", {}),
        ("messaging", "POST", "/inbox/ack", {"up_to": 1}),
        ("meta", "GET", "/meta", None),
    ],
)
async def test_a_group_taken_away_is_refused_on_the_next_call_and_named(
    broker: Broker, group: str, method: str, path: str, body: object
) -> None:
    ruth = broker.agents["ruth"]
    row = await ruth.send("iris")
    path = path.replace("/1", f"/{row}")
    await ruth.get(method, path, body)
    await broker.permit("ruth", remove_groups=[group])
    error = await ruth.refused(403, method, path, body)
    assert f"hivectl agent permissions ruth --add-group {group}" in error["message"]
    assert error["details"]["group"] == group
    await broker.permit("ruth", add_groups=[group])
    await ruth.get(method, path, body)


async def test_what_is_always_on_stays_on(broker: Broker, ruth: Peer) -> None:
    await broker.permit("ruth", remove_groups=["messaging", "meta", "inbox", "execution"])
    await ruth.get("PUT", "/status", {"text": "still here", "set_at": 5})
    await ruth.get("POST", "/inbox/release", {})
    assert (await ruth.get("GET", "/self"))["grants"]["groups"] == []


async def test_allowed_recipients_limit_send_and_the_refusal_says_so(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    otto = await broker.add("otto")
    await broker.permit("ruth", add_recipients=["otto"], add_capabilities=["broadcast"])
    await ruth.send("otto")
    await ruth.send("operator")
    error = await ruth.refused(403, "POST", "/messages", {"to": "iris", "body": "x"})
    assert "only to: operator, otto" in error["message"]
    unknown = await ruth.refused(404, "POST", "/messages", {"to": "zzz", "body": "x"})
    assert "iris" not in unknown["message"]
    sent = (await ruth.get("POST", "/messages", {"to": "*", "body": "x"}))["sent"]
    assert [row["to"] for row in sent] == ["otto"]
    assert await iris.recv() == []
    assert len(await otto.recv()) == 2
    await broker.permit("ruth", clear_recipients=True)
    await ruth.send("iris")


async def test_the_last_recipient_cannot_be_struck_by_the_way(broker: Broker, ruth: Peer) -> None:
    await broker.permit("ruth", add_recipients=["iris"])
    body = {"remove_recipients": ["iris"]}
    error = await broker.operator.refused(422, "PATCH", "/agents/ruth/permissions", body)
    assert "clear_recipients" in error["message"]
    result = await broker.permit("ruth", **body, add_recipients=["operator"])
    assert result["grants"]["allowed_recipients"] == ["operator"]
    await ruth.refused(403, "POST", "/messages", {"to": "iris", "body": "x"})


async def test_a_version_grows_with_every_change_and_with_nothing_else(broker: Broker) -> None:
    first = await broker.permit("ruth", add_groups=["scheduling"])
    assert (first["grants"]["version"], first["confirmed"]) == (2, True)
    assert (await broker.permit("ruth", add_groups=["scheduling"]))["grants"]["version"] == 2
    assert (await broker.permit("ruth", remove_groups=["scheduling"]))["grants"]["version"] == 3
    both = {"add_groups": ["forge"], "remove_groups": ["forge"]}
    await broker.operator.refused(422, "PATCH", "/agents/ruth/permissions", both)
    await broker.operator.refused(422, "PATCH", "/agents/ruth/permissions", {"add_groups": ["sudo"]})
    await broker.operator.refused(404, "PATCH", "/agents/nobody/permissions", {})


async def test_a_change_is_pushed_and_answered_once_every_daemon_has_confirmed(
    broker: Broker, ruth: Peer
) -> None:
    async with broker.connect(ruth) as mcp, broker.connect(ruth, unit="bash") as bash:
        assert (await mcp.next_grants())["version"] == 1
        assert (await bash.next_grants())["version"] == 1
        results = []

        async def change() -> None:
            results.append(await broker.permit("ruth", remove_groups=["messaging"]))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(change)
                for unit, stream in (("hyperhive", mcp), ("bash", bash)):
                    grants = await stream.next_grants()
                    assert "messaging" not in grants["groups"]
                    assert results == []
                    report = {"unit": unit, "boot": BOOTS[0], "grants_version": grants["version"]}
                    await ruth.get("POST", "/reports", report)
        assert results[0]["confirmed"] is True


async def test_a_daemon_that_does_not_confirm_is_not_waited_for_long(broker: Broker, ruth: Peer) -> None:
    async with broker.connect(ruth) as stream:
        await stream.next_grants()
        with anyio.fail_after(5):
            assert (await broker.permit("ruth", add_groups=["forge"]))["confirmed"] is False
    assert (await broker.permit("ruth", remove_groups=["forge"]))["confirmed"] is True


async def test_a_daemon_that_asked_for_fewer_groups_is_pushed_fewer(broker: Broker, ruth: Peer) -> None:
    async with broker.connect(ruth, tool_groups=["meta", "approvals"]) as stream:
        assert (await stream.next_grants())["groups"] == ["meta"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: broker.permit("ruth", add_groups=["approvals", "forge"]))
            assert (await stream.next_grants())["groups"] == ["approvals", "meta"]
            tasks.cancel_scope.cancel()
