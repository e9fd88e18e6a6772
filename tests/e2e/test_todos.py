"""The in-agent socket of a real surface: todos that nothing loses, and the other requests."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import AgentAccess, request
from tests.support.line_client import LineClient, ask
from tests.support.units import Units, running_units
from tests.support.waiting import eventually

PRODUCERS = 20
KILLS = 5


@pytest.fixture
def sock(units: Units, ruth: AgentAccess) -> Path:
    """The in-agent socket of ruth, without todos."""
    path = units.layout.agent("ruth").agent_socket
    ask(path, "mark_todos_done", ids=[todo["id"] for todo in ask(path, "list_todos")["todos"]])
    return path


@pytest.fixture(scope="module")
def spare() -> Iterator[Units]:
    """A hive that may be broken."""
    with running_units("ruth") as running:
        yield running


def todos(path: Path) -> list[dict[str, Any]]:
    return list(ask(path, "list_todos")["todos"])


def test_socket_is_private(sock: Path) -> None:
    assert stat.S_IMODE(sock.stat().st_mode) == 0o600
    assert stat.S_IMODE(sock.parent.stat().st_mode) == 0o700


@pytest.mark.requirement("todos.unique", "todos.revision")
def test_one_todo_a_subsystem_and_key(sock: Path) -> None:
    first = ask(sock, "upsert_todo", subsystem="any string!", key="k", summary="one")
    (made,) = todos(sock)
    assert first == {"ok": True, "id": made["id"]}
    assert set(made) == {"id", "subsystem", "key", "summary", "revision", "updated_at"}

    assert ask(sock, "upsert_todo", subsystem="any string!", key="k", summary="one") == first
    assert todos(sock) == [made]
    assert ask(sock, "upsert_todo", subsystem="any string!", key="k", summary="two", detail="d") == first
    (changed,) = todos(sock)
    assert (changed["summary"], changed["detail"]) == ("two", "d")
    assert changed["revision"] > made["revision"]

    other = ask(sock, "upsert_todo", subsystem="any string!", key="other", summary="one")
    assert other["id"] > first["id"]
    assert ask(sock, "clear_todo", subsystem="any string!", key="k") == {"ok": True, "cleared": True}
    assert ask(sock, "clear_todo", subsystem="any string!", key="k") == {"ok": True, "cleared": False}
    assert ask(sock, "upsert_todo", subsystem="any string!", key="k", summary="one")["id"] > other["id"]


@pytest.mark.requirement("todos.null-absent")
def test_null_is_absent(sock: Path) -> None:
    made = ask(sock, "upsert_todo", subsystem="s", key="k", summary="one", detail="d", event_id=None)
    assert made["ok"]
    ask(sock, "upsert_todo", subsystem="s", key="k", summary="one", detail=None, event_id=None)
    assert "detail" not in todos(sock)[0]


@pytest.mark.requirement("todos.event-once")
def test_event_counts_once_also_after_the_todo_was_cleared(sock: Path) -> None:
    told = {"subsystem": "bash", "key": "t1", "summary": "done", "event_id": "e1"}
    first = ask(sock, "upsert_todo", **told)
    before = todos(sock)

    assert ask(sock, "upsert_todo", **told | {"summary": "another", "detail": "x"}) == first
    assert todos(sock) == before
    ask(sock, "mark_todos_done", ids=[first["id"]])
    assert ask(sock, "upsert_todo", **told) == first
    assert todos(sock) == []
    assert ask(sock, "upsert_todo", **told | {"event_id": "e2"})["id"] > first["id"]
    # A producer that names its events alike for each task loses none.
    ask(sock, "upsert_todo", **told | {"key": "t2"})
    assert [todo["key"] for todo in todos(sock)] == ["t1", "t2"]


@pytest.mark.requirement("todos.limits")
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"summary": "x" * 2001}, "summary: String should have at most 2000"),
        ({"summary": "  "}, "summary: is empty"),
        ({"summary": None}, "summary"),
        ({"summary": "half \ud83d"}, "summary: Input should be a valid string"),
        ({"detail": "x" * 8001}, "detail"),
        ({"key": ""}, "key"),
        ({"key": "k" * 513}, "key"),
        ({"subsystem": "nul \0"}, "subsystem: contains U+0000"),
        ({"event_id": "e" * 201}, "event_id"),
        ({"event_id": 7}, "event_id"),
        ({"urgent": True}, "urgent: unknown field"),
    ],
)
def test_wrong_fields_are_refused_by_name(sock: Path, wrong: dict[str, Any], says: str) -> None:
    answer = ask(sock, "upsert_todo", **{"subsystem": "s", "key": "k", "summary": "s", **wrong})

    assert (answer["ok"], answer["error"]["code"]) == (False, "invalid_input")
    assert says in answer["error"]["message"]
    assert todos(sock) == []


@pytest.mark.requirement("todos.done")
def test_done_by_socket_and_by_tool_skips_what_is_not_open(sock: Path, ruth: AgentAccess) -> None:
    ids = [ask(sock, "upsert_todo", subsystem="s", key=str(n), summary="s")["id"] for n in range(4)]

    assert ask(sock, "mark_todos_done", ids=[ids[0], ids[0], 2**62]) == {"ok": True, "cleared": [ids[0]]}
    assert ruth.call("mark_todos_done", ids=[*ids[:3], 2**62]).ok() == "2 todos done. 2 not open, skipped."
    assert [todo["id"] for todo in todos(sock)] == [ids[3]]
    assert "`ids`" in ruth.call("mark_todos_done", ids=[]).error()
    assert "`ids.0`" in ruth.call("mark_todos_done", ids=["7"]).error()


@pytest.mark.requirement("compact.refused")
def test_compact_is_refused_with_the_reason(sock: Path, ruth: AgentAccess) -> None:
    answer = ask(sock, "compact")

    assert (answer["ok"], answer["error"]["code"]) == (False, "no_turn")
    assert "no turn" in ruth.call("compact").error()


@pytest.mark.requirement("sockets.slow-peers")
def test_peers_that_are_silent_slow_or_wrong_hold_up_nobody(sock: Path, ruth: AgentAccess) -> None:
    with ExitStack() as held:
        for number in range(100):
            peer = held.enter_context(LineClient(sock))
            # The first ones lose their places to later ones, and may be gone already.
            with suppress(OSError):
                peer.write([b"", b'{"cmd":"sta', b"\0\xff" * 1000, b"x" * 300_000][number % 4])
        for number in range(20):
            assert ask(sock, "upsert_todo", subsystem="s", key=str(number), summary="x")["ok"]
        assert len(todos(sock)) == 20
        assert "Inbox empty" in ruth.call("recv").ok()


@pytest.mark.requirement("socket.state")
def test_state_is_that_of_the_page(sock: Path, ruth: AgentAccess) -> None:
    page = request("GET", f"{ruth.surface_url}/api/state", token=ruth.token).json()

    assert ask(sock, "state") == {"ok": True, **page}
    assert (page["name"], page["turn_state"]) == ("ruth", "Idle")


@pytest.mark.requirement("todos.broker-down")
def test_todos_work_while_the_broker_is_down(spare: Units) -> None:
    ruth, path = spare.agents["ruth"], spare.layout.agent("ruth").agent_socket
    # The surface has heard of its grants, and so waits for none.
    eventually(lambda: ask(path, "state")["broker_connected"], within=10, what="the surface is connected")
    spare.broker.kill()
    try:
        made = ask(path, "upsert_todo", subsystem="s", key="k", summary="while it is away")
        assert [todo["id"] for todo in todos(path)] == [made["id"]]
        assert ruth.call("mark_todos_done", ids=[made["id"]]).ok() == "1 todo done."
        assert ask(path, "state")["ok"]
        assert todos(path) == []
    finally:
        spare.broker.start()


def _is_at_least(number: Callable[[], int], goal: int) -> bool:
    return number() >= goal


@pytest.mark.requirement("todos.durable", "wake.unchanged")
def test_kills_lose_no_todo_that_was_answered(spare: Units) -> None:
    path, surface = spare.layout.agent("ruth").agent_socket, spare.surfaces["ruth"]
    ruth = spare.agents["ruth"]
    stop = threading.Event()
    answered: list[dict[int, int]] = [{} for _ in range(PRODUCERS)]

    def produce(producer: int) -> None:
        number = 0
        while not stop.is_set():
            try:
                with LineClient(path) as client:
                    while not stop.is_set():
                        # Told until it is answered, as a producer does that must not lose an event.
                        answer = client.ask(
                            "upsert_todo",
                            subsystem=f"producer {producer}",
                            key=str(number % 20),
                            summary=f"event {number}",
                            event_id=str(number),
                        )
                        if answer is None:
                            break
                        assert answer["ok"], answer
                        answered[producer][number % 20] = number
                        number += 1
            except OSError:
                stop.wait(0.02)

    def most() -> int:
        return min(max(one.values(), default=0) for one in answered)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            goal = most() + 2
            eventually(partial(_is_at_least, most, goal), within=30, what="each producer is answered")
            surface.restart()
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)

    found = {(todo["subsystem"], todo["key"]): todo["summary"] for todo in todos(path)}
    for producer, known in enumerate(answered):
        for key, number in known.items():
            assert found[(f"producer {producer}", str(key))] == f"event {number}"
    # What was answered by the process that was killed is one todo, whoever has told it again.
    before = todos(path)
    assert len(found) == len({todo["id"] for todo in before})
    # One wake for all; told once more, they say nothing new.
    waited = request("GET", f"{ruth.surface_url}/api/wait", token=ruth.token).json()
    assert waited == {"due": True, "reasons": ["todos"]}
    with LineClient(path) as client:
        for todo in before:
            named = {name: todo[name] for name in ("subsystem", "key", "summary")}
            assert client.ask("upsert_todo", **named) == {"ok": True, "id": todo["id"]}
    assert todos(path) == before
    ask(path, "mark_todos_done", ids=[todo["id"] for todo in before])
    waited = request("GET", f"{ruth.surface_url}/api/wait?timeout_seconds=0", token=ruth.token).json()
    assert waited == {"due": False, "reasons": []}


@pytest.mark.requirement("socket.graceful-stop")
def test_graceful_stop_is_answered_and_ends_the_daemon(spare: Units) -> None:
    path, surface = spare.layout.agent("ruth").agent_socket, spare.surfaces["ruth"]
    try:
        assert ask(path, "graceful_stop") == {"ok": True}
        assert surface.wait() == 0
        assert not path.exists()
    finally:
        spare.revive()
    assert path.is_socket()


@pytest.mark.requirement("sockets.path-length")
def test_path_that_is_too_long_ends_the_start_with_the_setting(spare: Units) -> None:
    surface = spare.surfaces["ruth"]
    settings = dict(surface.env)
    surface.kill()
    try:
        with pytest.raises(RuntimeError, match="ended with 3") as failed:
            surface.start(HIVE_AGENT_SOCKET=f"/tmp/{'x' * 110}")
        assert "limit is 107; set HIVE_AGENT_SOCKET to a shorter path" in str(failed.value)
    finally:
        surface.env = settings
        surface.start()


@pytest.mark.requirement("sockets.peer-checked")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as somebody else")
def test_another_user_is_refused_even_where_the_file_admits_him(spare: Units) -> None:
    path = spare.layout.agent("ruth").agent_socket
    spare.layout.root.chmod(0o755)
    for directory in (spare.layout.run_dir, spare.layout.run_dir / "agents", path.parent):
        directory.chmod(0o755)
    path.chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        answer = ask(path, "state")
        os._exit(7 if answer["error"]["code"] == "forbidden" else 1)
    _, status = os.waitpid(child, 0)
    path.chmod(0o600)

    assert os.waitstatus_to_exitcode(status) == 7
    assert ask(path, "state")["ok"]
