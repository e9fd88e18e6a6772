"""`GET /api/wait` of real surfaces: mail and todos make a turn due, for as long as they wait."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.access import AgentAccess, request
from tests.support.line_client import ask
from tests.support.units import Units, running_units
from tests.support.waiting import eventually

NOTHING = {"due": False, "reasons": []}
MAIL = {"due": True, "reasons": ["inbox"]}
TODOS = {"due": True, "reasons": ["todos"]}


@pytest.fixture(scope="module")
def spare() -> Iterator[Units]:
    """A hive whose processes may be killed."""
    with running_units("ruth", "iris") as running:
        yield running


def wait(agent: AgentAccess, seconds: int = 0) -> Any:
    """What a wait of so many seconds answers."""
    url = f"{agent.surface_url}/api/wait?timeout_seconds={seconds}"
    response = request("GET", url, token=agent.token)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.requirement("wake.level")
def test_mail_is_due_until_it_is_acked_and_not_a_moment_longer(ruth: AgentAccess, iris: AgentAccess) -> None:
    for _ in range(10):
        assert wait(iris) == NOTHING
        with ThreadPoolExecutor(1) as pool:
            woken = pool.submit(wait, iris, 20)
            ruth.call("send", to="iris", body="wake up").ok()
            assert woken.result(10) == MAIL
        assert wait(iris, 20) == MAIL
        text = iris.call("recv").ok()
        iris.call("ack_until", up_to=int(text.split("#")[1].split("]")[0])).ok()


@pytest.mark.requirement("wake.handled")
def test_mail_that_was_acked_before_anybody_waited_wakes_nobody(ruth: AgentAccess, iris: AgentAccess) -> None:
    for _ in range(10):
        sent = ruth.call("send", to="iris", body="quickly").ok()
        iris.call("ack_until", up_to=int(sent.split("#")[1].split()[0])).ok()
        assert wait(iris) == NOTHING


@pytest.mark.requirement("wake.level", "wake.unchanged")
def test_todos_are_due_until_they_are_cleared(units: Units, iris: AgentAccess) -> None:
    path = units.layout.agent("iris").agent_socket
    assert wait(iris) == NOTHING
    with ThreadPoolExecutor(1) as pool:
        woken = pool.submit(wait, iris, 20)
        ids = [ask(path, "upsert_todo", subsystem="s", key=str(n), summary="x")["id"] for n in range(3)]
        assert woken.result(10) == TODOS
    assert [todo["id"] for todo in ask(path, "list_todos")["todos"]] == ids
    assert wait(iris, 20) == TODOS
    ask(path, "mark_todos_done", ids=ids)
    assert wait(iris) == NOTHING


@pytest.mark.requirement("wake.wait")
def test_a_wait_needs_the_agents_token_and_a_time(ruth: AgentAccess, iris: AgentAccess) -> None:
    url = f"{iris.surface_url}/api/wait"

    assert request("GET", url).status_code == 401
    assert request("GET", url, token=ruth.token).status_code == 401
    for wrong in ("-1", "nan", "inf", "soon"):
        answer = request("GET", f"{url}?timeout_seconds={wrong}", token=iris.token)
        assert answer.status_code == 422
        assert "timeout_seconds" in answer.json()["message"]


@pytest.mark.requirement("wake.wait")
def test_waits_whose_callers_have_left_hold_no_place(ruth: AgentAccess, iris: AgentAccess) -> None:
    url = f"{iris.surface_url}/api/wait"
    headers = {"authorization": f"Bearer {iris.token}"}
    with ExitStack() as open_:
        client = open_.enter_context(
            httpx2.Client(headers=headers, trust_env=False, verify=False, limits=httpx2.Limits())
        )
        for _ in range(150):
            with pytest.raises(httpx2.TimeoutException):
                client.get(url, timeout=0.01)
    assert wait(iris, 1) == NOTHING


@pytest.mark.requirement("wake.wait")
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("timeout_seconds=2.5", "timeout_seconds: Input should be a valid integer"),
        ("timeout_seconds=1e1", "timeout_seconds: Input should be a valid integer"),
        ("timeout_seconds=-1", "timeout_seconds: Input should be greater than or equal to 0"),
        ("timeout_seconds=", "timeout_seconds"),
        ("timeout=5", "timeout: unknown"),
        ("timeout_seconds=0&since=7", "since: unknown"),
    ],
)
def test_a_wait_that_was_asked_for_wrongly_is_refused(iris: AgentAccess, query: str, told: str) -> None:
    refused = request("GET", f"{iris.surface_url}/api/wait?{query}", token=iris.token)
    assert (refused.status_code, told in refused.json()["message"]) == (422, True), refused.text


@pytest.mark.requirement("wake.wait")
def test_more_waits_than_there_are_places_for_are_refused_clearly(units: Units, iris: AgentAccess) -> None:
    url = f"{iris.surface_url}/api/wait?timeout_seconds=0"
    place = urlsplit(iris.surface_url)
    head = f"GET /api/wait HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {iris.token}\r\n\r\n"
    with ExitStack() as open_:
        for _ in range(64):
            waiter = socket.create_connection((place.hostname or "", place.port or 0), timeout=10)
            open_.enter_context(waiter).sendall(head.encode())
        eventually(
            lambda: request("GET", url, token=iris.token).status_code == 429, what="all places are taken"
        )
        refused = request("GET", url, token=iris.token)
    assert refused.json()["code"] == "too_many_waiting"
    assert refused.headers["Retry-After"] == "1"
    eventually(lambda: request("GET", url, token=iris.token).status_code == 200, what="places are free again")
    assert "request_crashed" not in units.surfaces["iris"].log_text()


@pytest.mark.requirement("wake.rebuilt")
def test_what_waits_is_due_after_any_restart(spare: Units) -> None:
    iris, path = spare.agents["iris"], spare.layout.agent("iris").agent_socket
    spare.operator.send("iris", "hello")
    assert wait(iris, 20) == MAIL

    spare.surfaces["iris"].restart()
    assert wait(iris, 20) == MAIL
    spare.broker.restart()
    iris.drain()
    eventually(lambda: wait(iris) == NOTHING, within=10, what="nothing is due")

    made = ask(path, "upsert_todo", subsystem="s", key="k", summary="x")
    spare.surfaces["iris"].restart()
    assert wait(iris, 20) == TODOS
    ask(path, "mark_todos_done", ids=[made["id"]])
    spare.surfaces["iris"].restart()
    assert wait(iris) == NOTHING


@pytest.mark.requirement("wake.rebuilt")
def test_todos_wake_while_the_broker_is_down_and_mail_when_it_is_back(spare: Units) -> None:
    iris, path = spare.agents["iris"], spare.layout.agent("iris").agent_socket
    eventually(lambda: ask(path, "state")["broker_connected"], within=10, what="the surface is connected")
    spare.broker.kill()
    try:
        made = ask(path, "upsert_todo", subsystem="s", key="k", summary="x")
        assert wait(iris, 20) == TODOS
        ask(path, "mark_todos_done", ids=[made["id"]])
        assert wait(iris) == NOTHING
    finally:
        spare.broker.start()
    with ThreadPoolExecutor(1) as pool:
        woken = pool.submit(wait, iris, 20)
        spare.operator.send("iris", "back again")
        assert woken.result(20) == MAIL
    iris.drain()


@pytest.mark.requirement("wake.wait")
def test_a_stop_lets_go_who_waits(spare: Units) -> None:
    iris, surface = spare.agents["iris"], spare.surfaces["iris"]
    eventually(lambda: wait(iris) == NOTHING, within=10, what="nothing is due")
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(wait(iris, 30)))
    began = time.monotonic()
    waiting.start()
    # Each answers in its turn: when this one does, the other is being waited for.
    assert wait(iris, 1) == NOTHING
    try:
        surface.signal(signal.SIGTERM)
        waiting.join(20)
        assert answers == [NOTHING]
        assert surface.wait() == 0
        assert time.monotonic() - began < 20
    finally:
        spare.revive()
