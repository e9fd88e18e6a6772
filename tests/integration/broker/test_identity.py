"""Identity is the credential and nothing else; the two trees share no route and no credential."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.routing import APIRoute

from shared.runtime.credential import hash_token, new_token
from tests.integration.broker.running import BOOTS, Broker, Peer

AGENT_PATHS = [
    ("GET", "/self", None),
    ("GET", "/meta", None),
    ("POST", "/messages", {"to": "iris", "body": "x"}),
    ("GET", "/messages/1", None),
    ("POST", "/inbox/recv", {}),
    ("POST", "/inbox/ack", {"up_to": 1}),
    ("POST", "/inbox/release", {}),
    ("PUT", "/status", {"text": "x", "set_at": 1}),
    ("POST", "/reports", {"unit": "hyperhive", "boot": BOOTS[0]}),
    ("POST", "/control", {"unit": "hyperhive", "boot": BOOTS[0], "revision": "1"}),
]
OPERATOR_PATHS = [
    ("GET", "/hive", None),
    ("GET", "/agents", None),
    ("POST", "/agents", {"name": "eve", "token_sha256": "0" * 64}),
    ("GET", "/agents/iris", None),
    ("PATCH", "/agents/ruth/permissions", {"add_groups": ["approvals"]}),
    ("POST", "/agents/ruth/token", {"token_sha256": "0" * 64}),
    ("DELETE", "/agents/ruth/token/retiring", None),
    ("POST", "/messages", {"to": "iris", "body": "x"}),
    ("GET", "/inbox", None),
    ("POST", "/inbox/ack", {"up_to": 1}),
    ("GET", "/agents/iris/inbox", None),
    ("GET", "/openapi.json", None),
    ("GET", "/no-such-path", None),
]


@pytest.mark.parametrize(("method", "path", "body"), OPERATOR_PATHS)
async def test_no_other_credential_opens_an_operator_route(
    standing: Broker, method: str, path: str, body: object
) -> None:
    agents = standing.agents["ruth"].token
    for token in (agents, new_token(), hash_token(agents), "x"):
        await replace(standing.operator, token=token).refused(401, method, path, body)
    assert (await standing.http.request(method, f"/v1/operator{path}", json=body)).status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), AGENT_PATHS)
async def test_no_other_credential_opens_an_agent_route(
    standing: Broker, method: str, path: str, body: object
) -> None:
    ruth = standing.agents["ruth"]
    for token in (standing.operator.token, new_token(), hash_token(ruth.token), "x"):
        await replace(ruth, token=token).refused(401, method, path, body)
    assert (await standing.http.request(method, f"/v1/agent{path}", json=body)).status_code == 401


@pytest.mark.parametrize(
    "path", ["/v1/", "/v1/agents", "/v1/operators/hive", "/", "/V1/operator/hive", "/docs"]
)
async def test_outside_the_trees_no_credential_is_valid(standing: Broker, path: str) -> None:
    for token in (standing.agents["ruth"].token, standing.operator.token):
        answer = await standing.http.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


async def test_the_trees_share_no_route(standing: Broker) -> None:
    document = await standing.operator.get("GET", "/openapi.json")
    trees = {path.split("/")[2] for path in document["paths"] if path not in ("/healthz", "/readyz")}
    assert trees == {"agent", "operator"}


async def test_every_documented_route_is_there_for_the_credential_of_its_tree_alone(standing: Broker) -> None:
    document = await standing.operator.get("GET", "/openapi.json")
    ruth, operator = standing.agents["ruth"].token, standing.operator.token
    asked = 0
    for path, item in document["paths"].items():
        own, other = (operator, ruth) if path.startswith("/v1/operator/") else (ruth, operator)
        for method, operation in item.items():
            if not operation["security"]:
                continue
            asked += 1
            for token in (other, own[:-1], None):
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                answer = await standing.http.request(method.upper(), path, headers=headers)
                assert answer.status_code == 401, (method, path)
                assert answer.json()["code"] == "unauthenticated"
    assert asked >= len(AGENT_PATHS) + len(OPERATOR_PATHS) - 1


async def test_no_field_header_or_parameter_makes_a_request_somebody_elses(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    for extra in ({"sender": "operator"}, {"from": "iris"}, {"sender_agent_id": 2}, {"hops": 0}):
        await ruth.refused(422, "POST", "/messages", {"to": "iris", "body": "x", **extra})
    forged = {"X-Hive-Agent": "operator", "X-Agent": "iris", "Hive-Label": "iris"}
    await ruth.get("POST", "/messages?sender=operator", {"to": "iris", "body": "x"}, headers=forged)
    (row,) = (await iris.get("POST", "/inbox/recv?agent=ruth", {}))["messages"]
    assert row["sender"] == "ruth"
    assert (await ruth.get("GET", "/self?name=iris", headers=forged))["name"] == "ruth"
    await ruth.refused(422, "POST", "/inbox/recv", {"agent": "iris"})


async def test_a_rotated_token_works_beside_the_old_one_until_its_time_is_over(
    broker: Broker, ruth: Peer
) -> None:
    fresh = replace(ruth, token=new_token())
    body = {"token_sha256": hash_token(fresh.token), "grace_seconds": 60}
    await broker.operator.get("POST", "/agents/ruth/token", body)
    await broker.operator.get("POST", "/agents/ruth/token", body)
    assert (await ruth.get("GET", "/self"))["id"] == (await fresh.get("GET", "/self"))["id"]
    broker.clock.now += 60
    await ruth.refused(401, "GET", "/self")
    await fresh.get("GET", "/self")


async def test_the_old_token_ends_at_once_when_the_operator_says_so(broker: Broker, ruth: Peer) -> None:
    fresh = replace(ruth, token=new_token())
    body = {"token_sha256": hash_token(fresh.token)}
    await ruth.get("GET", "/self")
    await broker.operator.get("POST", "/agents/ruth/token", body)
    async with broker.connect(ruth) as stream:
        await stream.next_grants()
        await broker.operator.get("DELETE", "/agents/ruth/token/retiring")
        await stream.drain()
    await ruth.refused(401, "GET", "/self")
    await fresh.get("GET", "/self")
    await broker.operator.refused(
        409, "POST", "/agents/iris/token", {"token_sha256": hash_token(fresh.token)}
    )


async def test_an_agent_is_created_once_and_a_repeat_gets_the_same(broker: Broker, ruth: Peer) -> None:
    body = {"name": "otto", "token_sha256": "a" * 64, "parent": "ruth"}
    created = await broker.operator.get("POST", "/agents", body)
    assert (created["parent"], created["port_block"]) == ("ruth", 2)
    assert await broker.operator.get("POST", "/agents", body) == created
    for wrong in ({"token_sha256": "b" * 64}, {"name": "anna"}):
        await broker.operator.refused(409, "POST", "/agents", body | wrong)
    error = await broker.operator.refused(
        404, "POST", "/agents", {"name": "anna", "token_sha256": "c" * 64, "parent": "rut"}
    )
    assert "ruth" in error["message"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "A/b",
        "a/b",
        "Ruth",
        "x" * 33,
        "x" * 10_000,
        "-a",
        "a b",
        "ruth\n",
        "r\u00fcth",
        "operator",
        "bash",
    ],
)
async def test_what_is_no_agents_name_is_refused_everywhere(standing: Broker, name: str) -> None:
    body = {"name": name, "token_sha256": "0" * 64}
    error = await standing.operator.refused(422, "POST", "/agents", body)
    assert error["message"].startswith("name")
    await standing.operator.refused(422, "POST", "/agents", body | {"name": "anna", "parent": name})
    if name != "operator":
        change = {"add_recipients": [name]}
        await standing.operator.refused(422, "PATCH", "/agents/ruth/permissions", change)
    for path in ("", "/inbox"):
        escaped = "".join(f"%{byte:02X}" for byte in name.encode()) or "%20"
        answer = await standing.operator.ask("GET", f"/agents/{escaped}{path}")
        assert answer.status_code in {404, 422}, answer.text
        assert len(answer.text) < 500
    assert len(await standing.operator.get("GET", "/agents")) == 2


async def test_a_route_of_one_tree_never_serves_the_other(standing: Broker) -> None:
    routes = [route for route in standing.app.routes if isinstance(route, APIRoute)]
    assert all(route.path.startswith(("/v1/agent/", "/v1/operator/")) for route in routes)
