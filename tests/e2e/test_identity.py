"""Identity is the credential: no request of one agent reads, acks, changes or sends as anybody else."""

from __future__ import annotations

import http.client
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.access import AgentAccess, request
from tests.support.prose import ids_of, rows_of, sent_id
from tests.support.units import Units

AGENT_ROUTES = (
    ("GET", "/self"),
    ("POST", "/messages"),
    ("GET", "/messages/1"),
    ("POST", "/inbox/recv"),
    ("POST", "/inbox/ack"),
    ("POST", "/inbox/release"),
    ("GET", "/meta"),
    ("PUT", "/status"),
    ("POST", "/control"),
    ("POST", "/reports"),
)


@pytest.mark.requirement("identity.other-agent")
def test_an_agents_token_opens_no_other_agents_surface(ruth: AgentAccess, iris: AgentAccess) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert request("POST", iris.mcp_url, token=ruth.token, body=ping).status_code == 401
    assert request("GET", f"{iris.surface_url}/api/state", token=ruth.token).status_code == 401


@pytest.mark.requirement("identity.trees-apart")
def test_an_agents_token_opens_no_route_of_the_operator(units: Units, ruth: AgentAccess) -> None:
    paths = units.operator.json("GET", "/openapi.json")["paths"]
    tried = [
        (method.upper(), re.sub(r"\{[^}]+\}", "1", path))
        for path, methods in paths.items()
        if path.startswith("/v1/operator")
        for method in methods
    ]
    assert len(tried) >= 12
    for method, path in [*tried, ("GET", "/v1/operator/openapi.json"), ("GET", "/v1/operator/nothing")]:
        response = request(method, f"{units.broker.url}{path}", token=ruth.token, body={})
        assert response.status_code == 401, (method, path)


@pytest.mark.requirement("identity.trees-apart")
def test_the_operators_token_opens_no_route_of_an_agent(units: Units) -> None:
    for method, path in AGENT_ROUTES:
        url = f"{units.broker.url}/v1/agent{path}"
        assert request(method, url, token=units.operator.token, body={}).status_code == 401, (method, path)


@pytest.mark.requirement("identity.trees-apart")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/agent/../operator/hive",
        "/v1/agent/%2e%2e/operator/hive",
        "/v1/agent/..%2foperator/hive",
        "//v1/operator/hive",
        "/v1//operator/hive",
        "/V1/Operator/hive",
        "/v1/operator/hive/",
        "/v1/agent;/../operator/hive",
        "/v1/operator%2fhive",
        "http://127.0.0.1/v1/operator/hive",
    ],
)
def test_no_spelling_of_a_path_leads_an_agent_to_the_operators_tree(
    units: Units, ruth: AgentAccess, path: str
) -> None:
    # A plain connection: every other client would tidy the path up.
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(units.broker.url).port, timeout=10)
    connection.request("GET", path, headers={"authorization": f"Bearer {ruth.token}"})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    assert response.status in {401, 404, 421}, (path, response.status)
    assert "hive_name" not in text


@pytest.mark.requirement("identity.not-an-argument")
@pytest.mark.parametrize("field", ["sender", "from", "agent", "name", "agent_id"])
def test_no_field_of_a_request_names_the_sender(ruth: AgentAccess, field: str) -> None:
    response = ruth.http("POST", "/messages", {"to": "iris", "body": "x", field: "operator"})
    assert response.status_code == 422
    assert field in response.json()["message"]
    extra: dict[str, Any] = {field: "operator"}
    assert field in ruth.call("send", to="iris", body="x", **extra).error()
    assert ruth.http("POST", "/inbox/recv", {"max": 1, field: "iris"}).status_code == 422


@pytest.mark.requirement("identity.not-an-argument")
def test_no_header_or_query_makes_a_request_somebody_elses(
    ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess
) -> None:
    private = sent_id(milo.call("send", to="iris", body="for iris").ok())
    names = ("X-Agent", "X-Hive-Agent", "X-Hive-Label", "X-Forwarded-User", "X-Hive-Turn", "Forwarded")
    headers = dict.fromkeys(names, "iris")
    query = {"agent": "iris", "name": "iris", "label": "iris"}
    assert ruth.json("POST", "/inbox/recv", {"max": 5}, headers=headers, params=query)["messages"] == []
    ruth.json("POST", "/messages", {"to": "milo", "body": "who?"}, headers=headers, params=query)
    assert [row.sender for row in rows_of(milo.call("recv").ok())] == ["ruth"]
    assert ids_of(iris.call("recv", max=5).ok()) == [private]


@pytest.mark.requirement("identity.not-an-argument")
def test_another_agents_rows_can_be_neither_read_nor_acked_nor_released(
    units: Units, ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess
) -> None:
    number = sent_id(iris.call("send", to="milo", body="private").ok())
    assert ids_of(milo.call("recv").ok()) == [number]
    assert ruth.http("GET", f"/messages/{number}").status_code == 404
    assert milo.http("GET", f"/messages/{number}").status_code == 404
    assert ruth.json("POST", "/inbox/ack", {"up_to": number})["acked"] == 0
    assert ruth.json("POST", "/inbox/release", {"ids": [number]})["released"] == 0
    found = units.operator.json("GET", "/agents/milo/inbox")["messages"]
    assert [(row["id"], row["state"]) for row in found] == [(number, "delivered")]
    state = iris.json("GET", f"/messages/{number}")
    assert (state["state"], state.get("body", "")) == ("delivered", "")


@pytest.mark.requirement("identity.not-an-argument")
def test_an_agent_changes_no_row_of_the_operators_inbox(units: Units, ruth: AgentAccess) -> None:
    number = sent_id(ruth.call("send", to="operator", body="please read").ok())
    assert ruth.json("POST", "/inbox/ack", {"up_to": number})["acked"] == 0
    found = units.operator.json("GET", "/inbox")["messages"]
    assert number in [row["id"] for row in found if row["state"] != "acked"]


@pytest.mark.requirement("identity.not-an-argument")
def test_a_status_is_the_callers_own(ruth: AgentAccess, iris: AgentAccess) -> None:
    iris.call("set_status", text="mine").ok()
    forged = {"text": "forged", "set_at": 1, "name": "iris"}
    assert ruth.http("PUT", "/status", forged).status_code == 422
    shape = ruth.call("get_agent_meta", name="iris").shape
    assert shape is not None
    assert shape["status_text"] == "mine"
