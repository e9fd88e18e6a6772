"""Groups: what the surface shows, what the broker enforces, and that a change counts at once."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from shared.permissions import ALWAYS_ON_TOOLS, GROUPS, ToolGroup
from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.claude import Era
from tests.support.units import Units

MESSAGING = {"send", "recv", "ack_until"}


@pytest.fixture(autouse=True)
def _given_back(units: Units) -> Iterator[None]:
    yield
    units.permit("ruth", add_groups=["messaging", "meta"])


@pytest.mark.requirement("permissions.hidden")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_tools_of_a_group_that_was_taken_away_are_not_listed(
    units: Units, ruth: AgentAccess, era: Era
) -> None:
    before = {tool["name"] for tool in ruth.list_tools(era)}
    units.permit("ruth", remove_groups=["messaging"])
    after = {tool["name"] for tool in ruth.list_tools(era)}
    assert before >= MESSAGING
    assert before - after == MESSAGING
    assert "set_status" in after


@pytest.mark.requirement("permissions.hidden", "permissions.revoked-live", "permissions.given-live")
async def test_a_connected_client_is_told_and_refused_and_let_in_again(
    units: Units, ruth: AgentAccess
) -> None:
    async with ruth.client() as client, client.listen(tools_list_changed=True) as changes:
        with anyio.fail_after(15):
            units.permit("ruth", remove_groups=["messaging"])
            await anext(aiter(changes))
            refused = await client.call_tool("recv", {})
            units.permit("ruth", add_groups=["messaging"])
            await anext(aiter(changes))
            allowed = await client.call_tool("recv", {})
    assert refused.is_error
    assert "messaging" in str(refused.content)
    assert not allowed.is_error


@pytest.mark.requirement("permissions.revoked-live")
async def test_a_session_of_the_handshake_era_is_refused_on_its_next_call(
    units: Units, ruth: AgentAccess
) -> None:
    async with ruth.client(LEGACY) as client:
        assert not (await client.call_tool("recv", {})).is_error
        units.permit("ruth", remove_groups=["messaging"])
        refused = await client.call_tool("recv", {})
    assert refused.is_error
    assert "messaging" in str(refused.content)


@pytest.mark.requirement("permissions.broker-enforces")
def test_the_broker_refuses_by_itself(units: Units, ruth: AgentAccess) -> None:
    units.permit("ruth", remove_groups=["messaging", "meta"])
    calls = (
        ruth.http("POST", "/messages", {"to": "iris", "body": "x"}),
        ruth.http("POST", "/inbox/recv", {"max": 1}),
        ruth.http("POST", "/inbox/ack", {"up_to": 1}),
        ruth.http("GET", "/meta"),
    )
    assert [response.status_code for response in calls] == [403] * 4
    assert all("messaging" in response.text for response in calls[:3])
    assert "meta" in calls[3].json()["message"]


@pytest.mark.requirement("permissions.broker-enforces", "permissions.who-narrowed")
def test_tool_groups_of_a_surface_narrow_and_never_widen(units: Units) -> None:
    units.permit("ruth", remove_groups=["meta"])
    surface = units.surfaces["ruth"]
    before = dict(surface.env)
    surface.kill()
    surface.start(HIVE_TOOL_GROUPS="meta,inbox")
    try:
        names = {tool["name"] for tool in units.agents["ruth"].list_tools()}
        assert names == ALWAYS_ON_TOOLS | GROUPS[ToolGroup.INBOX].tools
        for tool, group in (("recv", "messaging"), ("get_agent_meta", "meta")):
            error = units.agents["ruth"].call(tool).error()
            assert group in error
            assert ("HIVE_TOOL_GROUPS" in error) == (group == "messaging")
    finally:
        surface.kill()
        surface.env = before
        surface.start()


@pytest.mark.requirement("permissions.revoked-live")
def test_grants_hold_while_the_broker_is_down(units: Units, ruth: AgentAccess) -> None:
    units.permit("ruth", remove_groups=["messaging"])
    units.broker.kill()
    try:
        units.surfaces["ruth"].restart()
        assert "messaging" in ruth.call("recv").error()
        assert not MESSAGING & {tool["name"] for tool in ruth.list_tools()}
    finally:
        units.broker.start()
