"""Host, Origin, credential, Content-Type: in this order, on every endpoint of broker and surface."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
import pytest

from tests.support.access import AgentAccess, request
from tests.support.units import Units

TARGETS = ("agent tree", "operator tree", "surface mcp", "surface state")


@dataclass(frozen=True)
class Target:
    """An endpoint that is guarded, and the credential that opens it."""

    method: str
    url: str
    token: str
    body: object = None

    @property
    def port(self) -> str:
        return str(httpx2.URL(self.url).port)

    def ask(self, *, token: str | None = None, **headers: str) -> httpx2.Response:
        """A request with these headers (`_` for `-`); without `token` no credential."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        accept = {"accept": "application/json, text/event-stream"}
        return request(self.method, self.url, token=token, body=self.body, headers={**accept, **given})


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, units: Units, ruth: AgentAccess) -> Target:
    operator = units.operator
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return {
        "agent tree": Target("POST", f"{units.broker.url}/v1/agent/inbox/recv", ruth.token, {"max": 1}),
        "operator tree": Target(
            "POST", f"{units.broker.url}/v1/operator/messages", operator.token, {"to": "iris", "body": "x"}
        ),
        "surface mcp": Target("POST", ruth.mcp_url, ruth.token, ping),
        "surface state": Target("GET", f"{ruth.surface_url}/api/state", ruth.token),
    }[request.param]


def test_the_right_request_is_let_in(target: Target) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert target.ask(token=target.token, host=f"{host}:{target.port}").is_success


@pytest.mark.requirement("guard.host")
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1:1", "127.0.0.1", "localhost.evil.example:{port}", "0.0.0.0:{port}", ""],
)
def test_a_wrong_host_is_421(target: Target, host: str) -> None:
    response = target.ask(token=target.token, host=host.format(port=target.port))
    assert response.status_code in ({421} if host else {400, 421})


@pytest.mark.requirement("guard.origin")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
def test_a_foreign_origin_is_403(target: Target, origin: str) -> None:
    assert target.ask(token=target.token, origin=origin).status_code == 403


@pytest.mark.requirement("identity.token")
def test_a_wrong_or_missing_token_is_401_without_a_hint(
    units: Units, iris: AgentAccess, target: Target
) -> None:
    wrong = [None, "x", target.token[:-1], target.token + "a", target.token.swapcase()]
    answers = [target.ask(token=token) for token in wrong]
    answers += [target.ask(authorization=f"Basic {target.token}"), target.ask(authorization="Bearer")]
    assert {answer.status_code for answer in answers} == {401}
    shown = {(body["code"], body["message"]) for body in (answer.json() for answer in answers)}
    assert len(shown) == 1


@pytest.mark.requirement("guard.content-type")
@pytest.mark.parametrize("target", TARGETS[:3], indirect=True)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_web_page_may_post_without_asking_is_refused(target: Target, kind: str) -> None:
    assert target.ask(token=target.token, content_type=kind).status_code == 415


@pytest.mark.requirement("guard.order")
def test_host_comes_before_origin_before_credential_before_content_type(target: Target) -> None:
    wrong = {"content_type": "text/plain"}
    assert target.ask(**wrong).status_code == 401
    wrong["origin"] = "https://evil.example"
    assert target.ask(**wrong).status_code == 403
    wrong["host"] = "evil.example"
    assert target.ask(**wrong).status_code == 421


@pytest.mark.requirement("guard.open")
def test_only_health_and_readiness_are_open_and_say_a_status_alone(units: Units, ruth: AgentAccess) -> None:
    for base in (units.broker.url, ruth.surface_url):
        for path in ("/healthz", "/readyz"):
            response = request("GET", f"{base}{path}")
            assert response.status_code in {200, 503}
            assert list(response.json()) == ["status"]
        for path in (
            "/",
            "/docs",
            "/openapi.json",
            "/mcp",
            "/api/state",
            "/v1/operator/openapi.json",
            "/nowhere",
        ):
            assert request("GET", f"{base}{path}").status_code == 401, path
