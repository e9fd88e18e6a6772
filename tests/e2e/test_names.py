"""Names that climb, imitate or overflow are refused everywhere, and are not echoed at length."""

from __future__ import annotations

import pytest

from tests.support.access import AgentAccess, request
from tests.support.hostile import HOSTILE_NAMES, in_path
from tests.support.units import Units

pytestmark = pytest.mark.requirement("names.refused")

hostile = pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
SHA = "0" * 64


@hostile
def test_as_a_recipient(ruth: AgentAccess, name: str) -> None:
    assert len(ruth.call("send", to=name, body="hello").error()) < 1000
    response = ruth.http("POST", "/messages", {"to": name, "body": "hello"})
    assert response.status_code in {404, 422}
    assert len(response.text) < 1000


@hostile
def test_as_an_agent_to_ask_about(ruth: AgentAccess, name: str) -> None:
    assert len(ruth.call("get_agent_meta", name=name).error()) < 1000
    response = ruth.http("GET", "/meta", params={"name": name})
    assert response.status_code in {404, 422}
    assert len(response.text) < 1000


@hostile
def test_as_an_agent_to_create(units: Units, name: str) -> None:
    response = units.operator.http("POST", "/agents", {"name": name, "token_sha256": SHA})
    assert response.status_code == 422
    child = {"name": "child", "token_sha256": SHA, "parent": name}
    assert units.operator.http("POST", "/agents", child).status_code in {404, 422}
    assert {agent["name"] for agent in units.operator.json("GET", "/agents")} == {"ruth", "iris", "milo"}


@pytest.mark.parametrize("name", ["operator", "system", "graceful-stop", "all", "hive", "hyperhive", "bash"])
def test_reserved_names_cannot_be_created(units: Units, name: str) -> None:
    response = units.operator.http("POST", "/agents", {"name": name, "token_sha256": SHA})
    assert response.status_code == 422
    assert "reserved" in response.text


@hostile
def test_in_a_path_of_the_operators_tree(units: Units, name: str) -> None:
    base = f"{units.broker.url}/v1/operator/agents/{in_path(name)}"
    token = units.operator.token
    calls = (
        ("GET", base, None),
        ("GET", f"{base}/inbox", None),
        ("PATCH", f"{base}/permissions", {"add_groups": ["forge"]}),
        ("POST", f"{base}/jobs", {"kind": "start"}),
        ("POST", f"{base}/token", {"token_sha256": SHA}),
        ("DELETE", f"{base}/token/retiring", None),
    )
    for method, url, body in calls:
        response = request(method, url, token=token, body=body)
        # An empty segment makes another path, such as the list of all agents.
        wanted = {404, 405, 422} if name else {200, 307, 404, 405, 422}
        assert response.status_code in wanted, (method, url[:200], response.status_code)
        assert response.status_code != 200 or response.json().__class__ is list


@hostile
def test_as_an_allowed_recipient(units: Units, name: str) -> None:
    response = units.operator.http("PATCH", "/agents/ruth/permissions", {"add_recipients": [name]})
    assert response.status_code in {404, 422}
    assert units.operator.json("GET", "/agents/ruth")["grants"]["allowed_recipients"] == []
