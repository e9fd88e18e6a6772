"""The app of every daemon: request ids, errors as answers, streams untouched."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import httpx2
import pytest
from fastapi import Body, FastAPI, Query, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from shared.errors import LimitExceeded, Misconfigured, NotFound, Unavailable
from shared.runtime.http import create_http_app
from shared.runtime.log import configure_logging, request_id
from shared.wire.messages import AckRequest, SendRequest
from tests.unit.shared.serving import TOKEN, Served, serving

SECRET = "planted-secret-4711"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Stream:
    """Lets a test decide when the second line of a stream is written."""

    def __init__(self) -> None:
        self.go_on = threading.Event()


STREAM = Stream()


def build_app() -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield

    async def authenticate(_path: str, token: str) -> object | None:
        if token == "d" * 43:
            raise Unavailable("the database is busy; try again")
        return token

    app = create_http_app(unit="test", lifespan=lifespan, authenticate=authenticate, ready=lambda: True)

    @app.post("/send")
    async def send(request: SendRequest) -> str:
        return request.to

    @app.post("/ack")
    async def ack(request: AckRequest) -> int:
        return request.up_to

    @app.post("/pet")
    async def pet(pet: Annotated[Cat | Dog, Body(discriminator="kind")]) -> str:
        return pet.kind

    @app.delete("/pet")
    async def no_pet() -> None:
        return None

    @app.get("/page")
    async def page(limit: Annotated[int, Query(le=9)]) -> int:
        return limit

    @app.get("/id")
    async def current_id(_request: Request) -> str | None:
        return request_id.get()

    @app.get("/fail/{kind}")
    async def fail(kind: str) -> None:
        errors: dict[str, Exception] = {
            "missing": NotFound("no agent `irys`", details={"near": ["iris"]}),
            "limit": LimitExceeded("too many", details={"retry_after_seconds": 7}),
            "unavailable": Unavailable("the disk is full"),
            "setting": Misconfigured(f"cannot read {SECRET}"),
            "bug": RuntimeError(SECRET),
            "group": ExceptionGroup("tasks", [ValueError(SECRET)]),
        }
        raise errors[kind]

    @app.get("/stream")
    async def stream(cut: bool = False) -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            yield b"1\n"
            if cut:
                raise RuntimeError(SECRET)
            while not STREAM.go_on.is_set():
                yield b""
            yield b"2\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return app


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(build_app()) as served:
        yield served


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logging("test", level="debug", stream=stream)
    return stream


def get(served: Served, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(served.url + path, headers={**HEADERS, **headers}, trust_env=False)


def post(served: Served, path: str, content: bytes | str) -> httpx2.Response:
    return httpx2.post(served.url + path, headers=HEADERS, content=content, trust_env=False)


def test_own_request_id_is_kept_bound_and_echoed(served: Served) -> None:
    response = get(served, "/id", **{"X-Request-Id": "abc-DEF_9"})

    assert response.json() == response.headers["X-Request-Id"] == "abc-DEF_9"


@pytest.mark.parametrize("bad", ["", "a" * 65, "a b", "a/b", "ä"])
def test_unfit_request_id_is_replaced(served: Served, bad: str) -> None:
    sent = {name.encode(): value.encode() for name, value in {**HEADERS, "X-Request-Id": bad}.items()}
    made = httpx2.get(f"{served.url}/id", headers=sent, trust_env=False)

    assert len(made.json()) == 26
    assert made.headers["X-Request-Id"] == made.json()


def test_refusals_carry_the_request_id_too(served: Served) -> None:
    response = httpx2.get(f"{served.url}/id", headers={"X-Request-Id": "mine"}, trust_env=False)

    assert (response.status_code, response.json()["request_id"]) == (401, "mine")


def test_expected_errors_keep_code_text_and_details(served: Served) -> None:
    response = get(served, "/fail/missing", **{"X-Request-Id": "r1"})

    assert response.status_code == 404
    assert response.json() == {
        "code": "not_found",
        "message": "no agent `irys`",
        "details": {"near": ["iris"]},
        "request_id": "r1",
    }
    assert get(served, "/fail/limit").headers["Retry-After"] == "7"
    assert get(served, "/fail/unavailable").json()["message"] == "the disk is full"


@pytest.mark.parametrize("kind", ["bug", "group", "setting"])
def test_the_text_of_a_500_reaches_only_the_log(served: Served, log: io.StringIO, kind: str) -> None:
    response = get(served, f"/fail/{kind}", **{"X-Request-Id": "r2"})

    assert response.status_code == 500
    assert SECRET not in response.text + str(response.headers)
    assert response.json()["code"] == "internal"
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    [told] = [line for line in lines if SECRET in json.dumps(line)]
    assert told["request_id"] == "r2"


def test_errors_of_authentication_are_answered(served: Served) -> None:
    response = get(served, "/id", Authorization=f"Bearer {'d' * 43}")

    assert (response.status_code, response.json()["message"]) == (503, "the database is busy; try again")


def test_unknown_paths_and_methods_have_the_same_shape(served: Served) -> None:
    assert get(served, "/none").json()["code"] == "not_found"
    wrong = get(served, "/send")
    assert (wrong.status_code, wrong.json()["code"], wrong.headers["Allow"]) == (
        405,
        "method_not_allowed",
        "POST",
    )
    assert get(served, "/openapi.json").status_code == get(served, "/docs").status_code == 404


def test_a_refused_method_is_told_all_that_the_path_has(served: Served) -> None:
    assert get(served, "/pet").headers["Allow"] == "DELETE, POST"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/ack", "{}", "up_to: is required"),
        ("/ack", '{"up_to": 0}', "up_to: Input should be greater than or equal to 1"),
        ("/ack", '{"up_to": 1, "upto": 1}', "upto: unknown field; remove it"),
        ("/ack", "", "body: is required"),
        ("/ack", "[]", "body: Input should be a valid dictionary or object to extract fields from"),
        ("/send", '{"to": "a", "body": ""}', "body: is empty; say something"),
        ("/pet", '{"kind": "planted-secret-4711"}', "body: must be one of 'cat', 'dog'"),
    ],
)
def test_invalid_input_names_field_and_expectation(
    served: Served, path: str, content: str, message: str
) -> None:
    response = post(served, path, content)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert response.json()["message"] == message


def test_invalid_parameters_say_that_they_are_one(served: Served) -> None:
    assert get(served, f"/page?limit={SECRET}").json()["message"].startswith("query limit: Input should be")


def test_many_errors_are_cut_and_input_is_never_echoed(served: Served) -> None:
    wrong = {f"field{number}": SECRET for number in range(30)}

    response = post(served, "/ack", json.dumps({**wrong, "up_to": SECRET}))

    assert SECRET not in response.text
    assert response.json()["message"].endswith("and 26 more")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe{}",
        b'{"to": "\xff", "body": "x"}',
        b'{"to": "\\ud800", "body": "x"}',
        b'{"to": "a", "body": "\\ud800"}',
        b'{"to": "a", "body": "\\u0000"}',
        b'{"to": "a", "body": "x", "\\ud800": 1}',
        b'{"to": "a", "body": "x", "in_reply_to": NaN}',
        b'{"to": "a", "body": "x", "in_reply_to": 1e999}',
        b'{"to": "a", "body": "x", "in_reply_to": ' + b"9" * 5000 + b"}",
        b'{"to": "a", "body": "x", "in_reply_to": ' + b"9" * 4000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"to": "a", "body": "x", "in_reply_to": true}',
        b"NaN",
        b"",
    ],
    ids=range(16),
)
def test_hostile_json_is_a_client_error_that_says_something(
    served: Served, log: io.StringIO, content: bytes
) -> None:
    response = post(served, "/send", content)

    assert response.status_code in (400, 422)
    assert response.json()["code"] == "invalid_input"
    assert response.json()["message"]
    assert "Traceback" not in log.getvalue()


def test_streams_are_not_buffered(served: Served) -> None:
    STREAM.go_on.clear()
    with (
        httpx2.Client(headers=HEADERS, trust_env=False, timeout=5) as client,
        client.stream("GET", f"{served.url}/stream") as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "1"
        STREAM.go_on.set()
        assert next(lines) == "2"


def test_a_stream_that_breaks_is_cut_and_logged(served: Served, log: io.StringIO) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        get(served, "/stream?cut=1")

    assert SECRET in log.getvalue()


def test_each_request_is_one_debug_line_without_its_query(served: Served, log: io.StringIO) -> None:
    get(served, "/page?limit=3")

    # The line is written after the answer has left; the next answer on the loop comes after it.
    get(served, "/healthz")
    first = json.loads(log.getvalue().splitlines()[0])
    assert (first["event"], first["path"], first["status"]) == ("request_finished", "/page", 200)
    assert "limit" not in json.dumps(first)


def test_nothing_of_the_request_is_in_a_field_of_a_crash(served: Served, log: io.StringIO) -> None:
    get(served, "/fail/bug")

    crash: dict[str, Any] = next(
        json.loads(line) for line in log.getvalue().splitlines() if "request_crashed" in line
    )
    assert TOKEN not in json.dumps(crash)
    assert crash["level"] == "error"
