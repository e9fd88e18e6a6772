"""The broker client: where calls go, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from shared.client import BrokerClient
from shared.errors import (
    Conflict,
    HiveError,
    LimitExceeded,
    NotFound,
)
from shared.runtime.log import request_id
from shared.wire.control import Report
from shared.wire.messages import (
    AckRequest,
    MessageState,
    RecvRequest,
    ReleaseRequest,
    SendRequest,
    StatesRequest,
    StatusText,
)
from tests.unit.shared.client.talk import BOOT, MESSAGE, OLD, SELF, SEND, SENT
from tests.unit.shared.scripted import (
    Step,
    answer,
    refuse,
    scripted,
)

pytestmark = pytest.mark.anyio


async def test_calls_go_where_the_contract_says_and_answers_are_parsed(connect: Any) -> None:
    steps = [
        answer(200, SELF),
        answer(201, SENT),
        answer(200, MESSAGE | {"recipient_state": "stopped"}),
        answer(200, {"messages": [MESSAGE], "pending": 2}),
        answer(200, {"acked": 1, "stayed": [], "stayed_count": 0}),
        answer(200, {"released": 1}),
        answer(200, {"states": {"7": "acked"}}),
        answer(200, {"name": "ruth", "running": True}),
        answer(204),
        answer(204),
    ]
    async with scripted(*steps) as broker:
        client: BrokerClient = connect(broker.url + "/")
        assert (await client.self_info()).name == "iris"
        assert (await client.send(SEND, "k1")).sent[0].id == 7
        assert (await client.get_sent(7)).id == 7
        assert (await client.recv(RecvRequest(max=2), "k2")).pending == 2
        assert (await client.ack(AckRequest(up_to=7))).acked == 1
        assert (await client.release(ReleaseRequest(), "k3")).released == 1
        assert (await client.get_states(StatesRequest(ids=[7]))).states == {7: MessageState.ACKED}
        assert (await client.get_meta("ruth")).running
        await client.set_status(StatusText(text="busy", set_at=1))
        await client.report(Report(unit="bash", boot=BOOT))

    assert [(heard.method, heard.target, heard.headers.get("idempotency-key")) for heard in broker.heard] == [
        ("GET", "/v1/agent/self", None),
        ("POST", "/v1/agent/messages", "k1"),
        ("GET", "/v1/agent/messages/7", None),
        ("POST", "/v1/agent/inbox/recv", "k2"),
        ("POST", "/v1/agent/inbox/ack", None),
        ("POST", "/v1/agent/inbox/release", "k3"),
        ("POST", "/v1/agent/inbox/states", None),
        ("GET", "/v1/agent/meta?name=ruth", None),
        ("PUT", "/v1/agent/status", None),
        ("POST", "/v1/agent/reports", None),
    ]
    sent = broker.heard[1]
    assert sent.headers["authorization"] == f"Bearer {OLD}"
    assert sent.headers["content-type"] == "application/json"
    assert SendRequest.model_validate_json(sent.body) == SEND


async def test_the_current_request_id_travels_on(connect: Any) -> None:
    async with scripted(answer(200, SELF)) as broker:
        client = connect(broker.url)
        request_id.set("r-17")
        await client.self_info()
        request_id.set(None)
        await client.self_info()

    assert broker.heard[0].headers["x-request-id"] == "r-17"
    assert len(broker.heard[1].headers["x-request-id"]) == 26


async def test_proxies_of_the_environment_never_see_a_call(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async with scripted(answer(200, SELF)) as broker:
        await connect(broker.url).self_info()

    assert broker.heard[0].target == "/v1/agent/self"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (refuse(404, "not_found", "no agent `irys`", near=["iris"]), NotFound),
        (refuse(409, "conflict"), Conflict),
        (refuse(429, "limit_exceeded", retry_after_seconds=3), LimitExceeded),
        (refuse(418, "teapot"), HiveError),
        (refuse(500, "internal"), HiveError),
    ],
)
async def test_errors_of_the_broker_are_raised_again_at_once(
    connect: Any, step: Step, kind: type[HiveError]
) -> None:
    async with scripted(step) as broker:
        with pytest.raises(HiveError) as caught:
            await connect(broker.url).send(SEND, "k")

    assert type(caught.value) is kind
    assert len(broker.heard) == 1
    if kind is NotFound:
        assert (caught.value.message, caught.value.details) == ("no agent `irys`", {"near": ["iris"]})
