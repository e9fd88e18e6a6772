"""The broker client when all goes well, and above all when it does not."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from shared.client import BrokerClient
from shared.errors import (
    Conflict,
    HiveError,
    LimitExceeded,
    Misconfigured,
    NotFound,
    OutcomeUnknown,
    Unauthenticated,
    Unavailable,
)
from shared.runtime.credential import TokenFile
from shared.runtime.files import remove_private, write_private
from shared.runtime.ids import new_ulid
from shared.runtime.log import configure_logging, request_id
from shared.wire.control import ControlEvent, GrantsPush, Hello, Ping, Report
from shared.wire.messages import AckRequest, RecvRequest, ReleaseRequest, SendRequest, StatusText
from tests.unit.shared.scripted import Heard, Step, answer, break_off, hang, lines, refuse, scripted

pytestmark = pytest.mark.anyio

OLD, NEW = "o" * 43, "n" * 43
BOOT = new_ulid()
SENT = {"sent": [{"id": 7, "to": "iona", "recipient_state": "running"}]}
MESSAGE = {"id": 7, "sender": "iris", "recipient": "iona", "body": "", "sent_at": 1}
GRANTS = {"groups": ["messaging"], "capabilities": [], "version": 3}
SELF = {"id": 1, "name": "iris", "hive_name": "hive", "broker_revision": "0.1.0", "grants": GRANTS}
SEND = SendRequest(to="iona", body="hello")
HELLO = Hello(unit="bash", boot=BOOT, revision="0.1.0")
DEADLINE = 0.6


@pytest.fixture
def token(tmp_path: Path) -> Path:
    write_private(tmp_path / "token", OLD.encode())
    return tmp_path / "token"


@pytest.fixture
async def connect(token: Path) -> AsyncIterator[Callable[..., BrokerClient]]:
    made: list[BrokerClient] = []

    def build(url: str, deadline_seconds: float = DEADLINE, **more: Any) -> BrokerClient:
        made.append(
            BrokerClient(
                url, TokenFile(token), unit="bash", boot=BOOT, deadline_seconds=deadline_seconds, **more
            )
        )
        return made[-1]

    with anyio.fail_after(15):
        yield build
        for client in made:
            await client.aclose()


async def free_port() -> int:
    async with scripted(break_off) as broker:
        return broker.port


async def test_calls_go_where_the_contract_says_and_answers_are_parsed(connect: Any) -> None:
    steps = [
        answer(200, SELF),
        answer(201, SENT),
        answer(200, MESSAGE),
        answer(200, {"messages": [MESSAGE], "pending": 2}),
        answer(200, {"acked": 1, "stayed": [], "stayed_count": 0}),
        answer(200, {"released": 1}),
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
        assert (await client.release(ReleaseRequest())).released == 1
        assert (await client.get_meta("ruth")).running
        await client.set_status(StatusText(text="busy", set_at=1))
        await client.report(Report(unit="bash", boot=BOOT))

    assert [(heard.method, heard.target, heard.headers.get("idempotency-key")) for heard in broker.heard] == [
        ("GET", "/v1/agent/self", None),
        ("POST", "/v1/agent/messages", "k1"),
        ("GET", "/v1/agent/messages/7", None),
        ("POST", "/v1/agent/inbox/recv", "k2"),
        ("POST", "/v1/agent/inbox/ack", None),
        ("POST", "/v1/agent/inbox/release", None),
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


@pytest.mark.parametrize(
    "fault",
    [
        break_off,
        refuse(503, "unavailable"),
        answer(503),
        answer(502, raw=b"<html>", kind="text/html"),
        answer(504),
    ],
)
async def test_a_call_is_repeated_under_the_same_key_until_the_broker_is_back(
    connect: Any, fault: Step
) -> None:
    async with scripted(fault, fault, answer(201, SENT)) as broker:
        assert (await connect(broker.url, 5).send(SEND, "k9")).sent[0].id == 7

    assert [heard.headers["idempotency-key"] for heard in broker.heard] == ["k9"] * 3
    assert len({heard.body for heard in broker.heard}) == 1


async def test_a_broker_that_starts_late_is_reached_within_the_deadline(connect: Any) -> None:
    port = await free_port()
    client: BrokerClient = connect(f"http://127.0.0.1:{port}", 10)
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert (await client.self_info()).name == "iris"
            tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        async with scripted(answer(200, SELF), port=port):
            await anyio.sleep_forever()


async def test_a_broker_that_is_down_is_unavailable_and_nothing_was_done(connect: Any) -> None:
    url = f"http://127.0.0.1:{await free_port()}"
    client: BrokerClient = connect(url)

    for call in (client.self_info(), client.send(SEND, "k"), client.ack(AckRequest(up_to=1))):
        with pytest.raises(Unavailable, match="nothing was changed") as caught:
            await call
        assert url in caught.value.message


async def test_the_same_client_recovers_when_the_broker_returns(connect: Any) -> None:
    async with scripted(answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url)
        await client.self_info()
    with pytest.raises(Unavailable):
        await client.self_info()

    async with scripted(answer(200, SELF), port=broker.port):
        assert (await client.self_info()).name == "iris"


async def test_a_restart_between_two_calls_is_not_seen(connect: Any) -> None:
    async with scripted(answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url, 10)
        await client.self_info()

    async with scripted(answer(201, SENT), port=broker.port):
        assert (await client.send(SEND, "k")).sent


@pytest.mark.parametrize("fault", [hang, break_off, answer(502), refuse(504, "outcome_unknown")])
async def test_a_change_that_may_have_been_made_is_of_unknown_outcome(connect: Any, fault: Step) -> None:
    async with scripted(fault) as broker:
        client: BrokerClient = connect(broker.url)
        with pytest.raises(OutcomeUnknown, match="may or may not have been stored") as caught:
            await client.send(SEND, "k4")
        assert caught.value.details == {"idempotency_key": "k4"}
        with pytest.raises(OutcomeUnknown, match="handed out again later"):
            await client.recv(RecvRequest(), "k5")
        with pytest.raises(OutcomeUnknown, match="acking again is safe"):
            await client.ack(AckRequest(up_to=1))
        if fault is hang:
            with pytest.raises(Unavailable):
                await client.self_info()


async def test_one_lost_answer_is_not_forgotten_when_the_broker_then_goes_away(connect: Any) -> None:
    async with scripted(break_off, refuse(503, "unavailable")) as broker:
        with pytest.raises(OutcomeUnknown):
            await connect(broker.url).send(SEND, "k")


async def test_a_broker_that_says_it_did_nothing_is_believed_and_quoted(connect: Any) -> None:
    async with scripted(refuse(503, "unavailable", "the disk is full")) as broker:
        with pytest.raises(Unavailable, match="the disk is full"):
            await connect(broker.url).send(SEND, "k")


async def test_a_rotated_token_is_picked_up_within_the_call(connect: Any, token: Path) -> None:
    async def rotate(stream: SocketStream, heard: Heard) -> None:
        write_private(token, NEW.encode())
        await refuse(401, "unauthenticated")(stream, heard)

    async with scripted(refuse(401, "unauthenticated"), rotate, answer(201, SENT)) as broker:
        await connect(broker.url, 10).send(SEND, "k")

    assert [heard.headers["authorization"] for heard in broker.heard] == [
        f"Bearer {OLD}",
        f"Bearer {OLD}",
        f"Bearer {NEW}",
    ]


async def test_a_token_that_stays_refused_is_unauthenticated_and_not_shown(connect: Any, token: Path) -> None:
    async with scripted(refuse(401, "unauthenticated")) as broker:
        with pytest.raises(Unauthenticated) as caught:
            await connect(broker.url, 10).self_info()

    assert str(token) in caught.value.message
    assert OLD not in caught.value.message


async def test_a_missing_token_file_is_said_so(connect: Any, token: Path) -> None:
    async with scripted(answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url)
        remove_private(token)
        with pytest.raises(Misconfigured, match="cannot read the token file"):
            await client.self_info()


@pytest.mark.parametrize(
    "step",
    [
        answer(200, raw=b"<html>hello</html>", kind="text/html"),
        answer(200, {"unexpected": 1}),
        answer(200, raw=b"[" * 100_000),
        answer(200, raw=b"\xff\xfe"),
        answer(404, raw=b"Not Found", kind="text/plain"),
        answer(404, ["code"]),
        answer(301),
        answer(403, raw=b"[" * 100_000),
    ],
    ids=range(8),
)
async def test_what_is_no_broker_is_said_so(connect: Any, step: Step) -> None:
    async with scripted(step) as broker:
        client: BrokerClient = connect(broker.url)
        with pytest.raises(Unavailable, match="is not a broker this version understands"):
            await client.self_info()


async def test_a_garbled_success_leaves_open_what_happened(connect: Any) -> None:
    async with scripted(answer(201, raw=b"{")) as broker:
        with pytest.raises(OutcomeUnknown, match="may or may not have been stored"):
            await connect(broker.url).send(SEND, "k")


async def test_unknown_fields_of_a_newer_broker_are_ignored(connect: Any) -> None:
    async with scripted(answer(200, {**SELF, "mood": "good"})) as broker:
        assert (await connect(broker.url).self_info()).name == "iris"


async def test_names_travel_as_one_parameter_whatever_is_in_them(connect: Any) -> None:
    async with scripted(answer(200, {"name": "x", "running": False})) as broker:
        client: BrokerClient = connect(broker.url)
        await client.get_meta("../x?y=1&name=ruth#z")
        with pytest.raises(HiveError, match="valid Unicode"):
            await client.get_meta("\ud800")

    assert broker.heard[0].target == "/v1/agent/meta?name=..%2Fx%3Fy%3D1%26name%3Druth%23z"


async def test_after_closing_calls_fail_with_an_error_of_ours(connect: Any) -> None:
    async with scripted(answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url)
        await client.aclose()
        with pytest.raises(Unavailable, match="is stopping"):
            await client.self_info()
        with pytest.raises(Unavailable, match="is stopping"):
            await client.control(HELLO).__anext__()


async def test_a_call_can_be_cancelled_from_outside(connect: Any) -> None:
    async with scripted(hang) as broker:
        client: BrokerClient = connect(broker.url, 60)
        with anyio.move_on_after(0.2) as scope:
            await client.self_info()

    assert scope.cancelled_caught


async def test_nothing_secret_is_logged_even_at_debug(connect: Any) -> None:
    out = io.StringIO()
    configure_logging("bash", level="debug", stream=out)
    async with scripted(answer(502), answer(200, {"oops": OLD}), answer(201, SENT)) as broker:
        client: BrokerClient = connect(broker.url, 5)
        with pytest.raises(Unavailable):
            await client.self_info()
        await client.send(SEND, "k")

    assert "broker_call_repeated" in out.getvalue()
    assert OLD not in out.getvalue()
    assert "hello" not in out.getvalue()


def event(name: str, **fields: Any) -> bytes:
    return json.dumps({"type": name, **fields}).encode() + b"\n"


PING = event("ping")


async def read(client: BrokerClient) -> list[ControlEvent]:
    async with aclosing(client.control(HELLO)) as events:
        return [one async for one in events]


async def test_control_events_come_one_by_one_however_they_are_cut(connect: Any) -> None:
    grants = event("grants", grants=GRANTS)
    step = lines(grants[:9], grants[9:] + PING + b"\n" + PING[:3], PING[3:], then=break_off)
    async with scripted(step) as broker:
        got = await read(connect(broker.url))

    assert [type(one) for one in got] == [GrantsPush, Ping, Ping]
    assert isinstance(got[0], GrantsPush)
    assert got[0].grants.version == 3
    assert Hello.model_validate_json(broker.heard[0].body) == HELLO


async def test_events_of_a_newer_broker_are_skipped(connect: Any) -> None:
    step = lines(event("dance"), b"nonsense\n", event("ping", mood="good"), then=break_off)
    async with scripted(step) as broker:
        got = await read(connect(broker.url))

    assert got == [Ping()]


@pytest.mark.parametrize("step", [lines(PING, then=hang), hang])
async def test_a_silent_stream_is_given_up(connect: Any, step: Step) -> None:
    async with scripted(step) as broker:
        with pytest.raises(Unavailable, match=r"said nothing for 0\.3 s"):
            await read(connect(broker.url, silence_seconds=0.3))


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (refuse(401, "unauthenticated"), Unauthenticated),
        (refuse(409, "conflict"), Conflict),
        (answer(404), Unavailable),
        (break_off, Unavailable),
    ],
)
async def test_a_stream_that_is_refused_raises_what_the_broker_said(
    connect: Any, step: Step, kind: type[HiveError]
) -> None:
    async with scripted(step) as broker:
        with pytest.raises(kind):
            await read(connect(broker.url))

    assert len(broker.heard) == 1


async def test_a_stream_to_nobody_is_unavailable(connect: Any) -> None:
    with pytest.raises(Unavailable, match="not reachable"):
        await read(connect(f"http://127.0.0.1:{await free_port()}"))


async def test_leaving_a_stream_closes_its_connection(connect: Any) -> None:
    left = anyio.Event()

    async def until_left(stream: SocketStream, _heard: Heard) -> None:
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        left.set()
        raise anyio.EndOfStream

    async with scripted(lines(PING, then=until_left)) as broker:
        async with aclosing(connect(broker.url).control(HELLO)) as events:
            assert await events.__anext__() == Ping()
        await left.wait()


async def test_calls_go_on_beside_an_open_stream(connect: Any) -> None:
    async with scripted(lines(PING, then=hang), answer(200, SELF)) as broker:
        client: BrokerClient = connect(broker.url, silence_seconds=5)
        async with aclosing(client.control(HELLO)) as events:
            await events.__anext__()
            assert (await client.self_info()).name == "iris"
