"""The gate before every endpoint, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from shared.runtime.guard import Guard
from shared.runtime.http import create_http_app
from tests.unit.shared.serving import TOKEN, Served, serving

LIMIT = 4096
AUTH = f"Authorization: Bearer {TOKEN}"
JSON = "Content-Type: application/json"
Heard = list[tuple[str, str]]


def build_app(heard: Heard, *, ready: bool = True) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield

    async def authenticate(path: str, token: str) -> object | None:
        heard.append((path, token))
        return "iris" if token == TOKEN else None

    app = create_http_app(
        unit="test", lifespan=lifespan, authenticate=authenticate, ready=lambda: ready, max_body_bytes=LIMIT
    )

    @app.api_route("/who", methods=["GET", "POST", "PUT"])
    async def who(request: Request) -> dict[str, Any]:
        return {"caller": request.state.caller, "size": len(await request.body())}

    async def inner(request: Request) -> JSONResponse:
        return JSONResponse({"caller": request.state.caller, "size": len(await request.body())})

    app.mount("/", Starlette(routes=[Route("/mcp", inner, methods=["POST"])]))
    return app


@pytest.fixture(scope="module")
def heard() -> Heard:
    return []


@pytest.fixture(scope="module")
def served(heard: Heard) -> Iterator[Served]:
    with serving(build_app(heard)) as served:
        yield served


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LocalHost"])
def test_own_names_with_own_port_pass(served: Served, name: str) -> None:
    assert served.ask("GET", "/who", AUTH, host=f"{name}:{served.port}")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "localhost:1",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.2:{port}",
        "localhost.:{port}",
        "user@127.0.0.1:{port}",
        "0.0.0.0:{port}",
        "::1:{port}",
        "127.0.0.1:0{port}",
    ],
)
def test_other_hosts_are_misdirected(served: Served, host: str) -> None:
    status, body = served.ask("GET", "/who", AUTH, host=host.format(port=served.port))

    assert (status, body["code"]) == (421, "wrong_host")


def test_host_is_checked_on_open_paths_too(served: Served) -> None:
    assert served.ask("GET", "/healthz", host="evil.example:80")[0] == 421


def test_missing_and_repeated_host_are_misdirected(served: Served) -> None:
    own = f"Host: 127.0.0.1:{served.port}\r\n"
    head = f"GET /who HTTP/1.1\r\n{AUTH}\r\n"

    assert served.raw(f"{head}\r\n".encode())[0] == 421
    assert served.raw(f"{head}{own}{own}\r\n".encode())[0] == 421


def test_absolute_request_target_does_not_stand_in_for_host(served: Served) -> None:
    target = f"GET http://127.0.0.1:{served.port}/who HTTP/1.1\r\nHost: evil.example\r\n{AUTH}\r\n\r\n"

    assert served.raw(target.encode())[0] == 421


def test_ipv6_listener_knows_its_own_port() -> None:
    with serving(build_app([]), "::1") as served:
        assert served.ask("GET", "/who", AUTH, host=f"[::1]:{served.port}")[0] == 200
        assert served.ask("GET", "/who", AUTH, host="[::1]:1")[0] == 421


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_own_origin_passes(served: Served, name: str) -> None:
    assert served.ask("GET", "/who", AUTH, f"Origin: http://{name}:{served.port}")[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "http://localhost", "http://localhost:1", "https://localhost:{port}"],
)
def test_foreign_origins_are_forbidden(served: Served, origin: str) -> None:
    status, body = served.ask("GET", "/who", AUTH, "Origin: " + origin.format(port=served.port))

    assert (status, body["code"]) == (403, "foreign_origin")


def test_repeated_origin_is_forbidden(served: Served) -> None:
    origin = f"Origin: http://localhost:{served.port}"

    assert served.ask("GET", "/who", AUTH, origin, origin)[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Authorization: Bearer wrong"],
        ["Authorization: Bearer"],
        [f"Authorization: Basic {TOKEN}"],
        [f"Authorization: Bearer {TOKEN} {TOKEN}"],
        [f"Authorization: {TOKEN}"],
        [AUTH, AUTH],
        [f"Authorization: Bearer {'x' * 5000}"],
        ["Authorization: Bearer tökentökentökentöken"],
    ],
)
def test_refused_credentials_all_look_the_same(served: Served, headers: list[str]) -> None:
    status, body = served.ask("GET", "/who", *headers)

    assert status == 401
    assert body["message"] == "a valid bearer token is required"
    assert body["code"] == "unauthenticated"


def test_refusal_asks_for_bearer_and_hints_at_nothing(served: Served) -> None:
    response = httpx2.get(f"{served.url}/who", trust_env=False)

    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["details"] == {}


def test_unknown_paths_are_unauthenticated_before_they_are_unknown(served: Served) -> None:
    assert served.ask("GET", "/nowhere")[0] == 401
    assert served.ask("GET", "/healthz/")[0] == 401
    assert served.ask("POST", "/healthz")[0] == 401
    assert served.ask("OPTIONS", "/who")[0] == 401
    assert (
        served.raw(f"GET /nowhere HTTP/1.1\r\nHost: localhost:{served.port}\r\n{AUTH}\r\n\r\n".encode())[0]
        == 404
    )


def test_credential_scheme_is_case_insensitive_and_path_reaches_authenticate(
    served: Served, heard: Heard
) -> None:
    assert served.ask("GET", "/who", f"authorization: bEARER {TOKEN}") == (200, {"caller": "iris", "size": 0})
    assert heard[-1] == ("/who", TOKEN)


def test_host_is_judged_before_origin_before_credential_before_type(served: Served, heard: Heard) -> None:
    heard.clear()
    body = b"x=1"
    plain, foreign = "Content-Type: text/plain", "Origin: http://evil.example"

    assert served.ask("POST", "/who", foreign, plain, host="evil.example", body=body)[0] == 421
    assert served.ask("POST", "/who", foreign, plain, body=body)[0] == 403
    assert heard == []
    assert served.ask("POST", "/who", plain, body=body)[0] == 401
    assert served.ask("POST", "/who", AUTH, plain, body=body)[0] == 415


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_open(served: Served, method: str, path: str) -> None:
    response = httpx2.request(method, served.url + path, trust_env=False)

    assert response.status_code == 200
    assert response.text in ("", '{"status":"ok"}', '{"status":"ready"}')


def test_not_ready_is_503_with_the_status_alone() -> None:
    with serving(build_app([], ready=False)) as served:
        assert served.ask("GET", "/readyz") == (503, {"status": "not ready"})
        assert served.ask("GET", "/healthz") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "types",
    [
        ["Content-Type: text/plain"],
        [],
        ["Content-Type: application/x-www-form-urlencoded"],
        ["Content-Type: application/jsonp"],
        ["Content-Type: text/plain; application/json"],
        [JSON, JSON],
    ],
)
@pytest.mark.parametrize("path", ["/who", "/mcp"])
def test_bodies_that_are_not_json_are_refused(served: Served, path: str, types: list[str]) -> None:
    status, body = served.ask("POST", path, AUTH, *types, body=b"{}")

    assert (status, body["code"]) == (415, "unsupported_media_type")


def test_chunked_body_without_type_is_refused(served: Served) -> None:
    head = (
        f"POST /who HTTP/1.1\r\nHost: localhost:{served.port}\r\n{AUTH}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    assert served.raw(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")[0] == 415


def test_json_with_parameters_passes_also_below_a_mount(served: Served) -> None:
    kind = "Content-Type: Application/JSON; charset=utf-8"

    for path in ("/who", "/mcp"):
        assert served.ask("POST", path, AUTH, kind, body=b"{}") == (200, {"caller": "iris", "size": 2})


@pytest.mark.parametrize(
    "codings",
    [["gzip, chunked"], ["gzip", "chunked"], ["chunked, chunked"], ["identity, chunked"]],
    ids=" | ".join,
)
def test_a_transfer_coding_that_is_not_undone_is_not_read(served: Served, codings: list[str]) -> None:
    lines = [f"Transfer-Encoding: {coding}" for coding in codings]
    head = "\r\n".join(["POST /who HTTP/1.1", f"Host: 127.0.0.1:{served.port}", AUTH, JSON, *lines, "", ""])
    assert served.raw(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")[0] == 400


def test_chunked_is_a_coding_in_any_case(served: Served) -> None:
    lines = ["POST /who HTTP/1.1", f"Host: 127.0.0.1:{served.port}", AUTH, JSON]
    head = "\r\n".join([*lines, "Transfer-Encoding: Chunked", "", ""])
    assert served.raw(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")[0] == 200


@pytest.mark.parametrize("name", ["Idempotency-Key", "X-Hive-Turn"])
@pytest.mark.parametrize("values", [("k1", "k2"), ("k1", "k1")], ids="-".join)
def test_what_counts_once_may_be_there_once(served: Served, name: str, values: tuple[str, str]) -> None:
    status, body = served.ask("POST", "/who", AUTH, *(f"{name}: {value}" for value in values))
    assert (status, body["code"], body["message"]) == (
        422,
        "invalid_input",
        f"header {name}: must be there only once",
    )


def test_request_without_body_needs_no_type(served: Served) -> None:
    assert served.ask("POST", "/who", AUTH, "Content-Length: 0")[0] == 200


def test_declared_and_streamed_bodies_over_the_limit_are_refused(served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    for content in (b"x" * 100_000, chunks()):
        response = httpx2.post(f"{served.url}/who", headers=headers, content=content, trust_env=False)
        assert response.status_code == 413
        assert response.json()["message"] == f"the body is over the limit of {LIMIT} bytes"


def test_body_at_the_limit_passes_in_one_byte_chunks(served: Served) -> None:
    head = f"POST /who HTTP/1.1\r\nHost: localhost:{served.port}\r\n{AUTH}\r\n{JSON}\r\n"
    chunked = (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + b"1\r\nx\r\n" * LIMIT + b"0\r\n\r\n"

    assert served.raw(chunked)[2] == b'{"caller":"iris","size":%d}' % LIMIT


def test_head_without_end_is_cut_off(served: Served) -> None:
    status, _, _ = served.raw(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 400_000)

    assert status == 431


@pytest.mark.anyio
async def test_websockets_are_refused() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    async def authenticate(_path: str, _token: str) -> object | None:
        return "anybody"

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await Guard(app, authenticate=authenticate, max_body_bytes=1)({"type": "websocket"}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.anyio
async def test_a_caller_who_leaves_before_its_body_is_complete_has_asked_for_nothing() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    async def authenticate(_path: str, _token: str) -> object | None:
        return "anybody"

    arriving = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(arriving)

    async def send(message: Any) -> None:
        raise AssertionError("answered")

    headers = {
        "host": "localhost",
        "authorization": "Bearer x",
        "content-type": "application/json",
        "content-length": "2",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await Guard(app, authenticate=authenticate, max_body_bytes=9)(scope, receive, send)
