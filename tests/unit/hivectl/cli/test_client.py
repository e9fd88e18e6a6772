"""The operator's client against real sockets that do not behave like a broker."""

from __future__ import annotations

import pytest

from services.hivectl.client import OperatorClient
from shared.errors import Conflict, OutcomeUnknown, Unavailable
from shared.wire.lifecycle import JobKind
from shared.wire.messages import SendRequest
from tests.support.ports import free_port
from tests.unit.hivectl.cli.answers import break_off, reply, serve_answers


def test_refused_connection_says_that_the_hive_is_not_running() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with OperatorClient(url, "secret") as client, pytest.raises(Unavailable, match="hivectl up") as caught:
        client.get_hive()
    assert caught.value.code == "not_running"


def test_something_else_on_the_port_is_called_so() -> None:
    with (
        serve_answers(reply(200, b"<html>"), reply(404, b"nope"), reply(500, b"[]")) as (url, _),
        OperatorClient(url, "secret") as client,
    ):
        for ask in (client.get_hive, client.list_agents, client.get_hive):
            with pytest.raises(Unavailable, match="no hive broker"):
                ask()


def test_refusal_comes_back_in_the_class_that_the_broker_raised() -> None:
    body = b'{"code": "taken", "message": "is taken", "details": {"a": 1}}'
    with (
        serve_answers(reply(409, body)) as (url, _),
        OperatorClient(url, "secret") as client,
        pytest.raises(Conflict) as caught,
    ):
        client.create_job("iris", JobKind.START)
    assert (caught.value.code, caught.value.details) == ("taken", {"a": 1})


def test_broken_read_is_safe_to_repeat_and_broken_change_is_not() -> None:
    with serve_answers(break_off, break_off) as (url, _), OperatorClient(url, "secret") as client:
        with pytest.raises(Unavailable):
            client.get_hive()
        with pytest.raises(OutcomeUnknown):
            client.create_job("iris", JobKind.STOP)


def test_send_is_repeated_once_under_the_same_key() -> None:
    body = b'{"sent": [{"id": 7, "to": "iris", "recipient_state": "running"}]}'
    with (
        serve_answers(break_off, reply(201, body)) as (url, received),
        OperatorClient(url, "secret") as client,
    ):
        result = client.send(SendRequest(to="iris", body="hello"))
    assert [sent.id for sent in result.sent] == [7]
    keys = [
        line for raw in received for line in raw.split(b"\r\n") if line.lower().startswith(b"idempotency-key")
    ]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_environment_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serve_answers(reply(200, b"[]")) as (url, _), OperatorClient(url, "secret") as client:
        assert client.list_agents() == []
