"""The broker client when the broker is away, slow, in doubt, or no broker."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from shared.client import BrokerClient
from shared.errors import (
    HiveError,
    Misconfigured,
    OutcomeUnknown,
    Unauthenticated,
    Unavailable,
)
from shared.runtime.files import remove_private, write_private
from shared.runtime.log import configure_logging
from shared.wire.messages import AckRequest, RecvRequest
from tests.support.ports import free_port
from tests.unit.shared.client.talk import HELLO, NEW, OLD, SELF, SEND, SENT
from tests.unit.shared.scripted import (
    Heard,
    Step,
    answer,
    break_off,
    hang,
    refuse,
    scripted,
)

pytestmark = pytest.mark.anyio


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
@pytest.mark.requirement("delivery.keyed")
async def test_a_call_is_repeated_under_the_same_key_until_the_broker_is_back(
    connect: Any, fault: Step
) -> None:
    async with scripted(fault, fault, answer(201, SENT)) as broker:
        assert (await connect(broker.url, 5).send(SEND, "k9")).sent[0].id == 7

    assert [heard.headers["idempotency-key"] for heard in broker.heard] == ["k9"] * 3
    assert len({heard.body for heard in broker.heard}) == 1


async def test_a_broker_that_starts_late_is_reached_within_the_deadline(connect: Any) -> None:
    port = free_port()
    client: BrokerClient = connect(f"http://127.0.0.1:{port}", 10)
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert (await client.self_info()).name == "iris"
            tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        async with scripted(answer(200, SELF), port=port):
            await anyio.sleep_forever()


@pytest.mark.requirement("delivery.unsure")
async def test_a_broker_that_is_down_is_unavailable_and_nothing_was_done(connect: Any) -> None:
    url = f"http://127.0.0.1:{free_port()}"
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
@pytest.mark.requirement("delivery.unsure")
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


@pytest.mark.requirement("delivery.unsure")
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
