"""Both sockets of an agent in a whole hive, and `hivectl wake`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.hive import Hive
from tests.support.line_client import ask
from tests.support.waiting import eventually


def inbox(hive: Hive, name: str = "iris") -> list[tuple[str, str]]:
    return [(row["sender"], row["body"]) for row in hive.ctl("agent", "inbox", name)]


def core_socket(hive: Hive, name: str = "iris") -> Path:
    path = hive.layout.agent(name).core_socket
    eventually(path.is_socket, within=10, what=f"the broker serves {name}")
    return path


@pytest.mark.requirement("wake.command")
def test_wake_by_command(hive: Hive) -> None:
    sent = hive.ctl("wake", "iris", "--from", "cron:backup", "--body", "done\nall of it")

    assert sent == {"id": sent["id"], "to": "iris", "state": "queued", "recipient_state": "running"}
    assert inbox(hive)[-1] == ("cron:backup", "done\nall of it")
    text = hive.run("wake", "iris", "--from", "ci", "--body", "red").stdout
    assert text == f"#{sent['id'] + 1} queued for iris, which is running\n"
    received = hive.agent("iris").call("recv", max=5).ok()
    assert "from cron:backup (wake)" in received


@pytest.mark.requirement("wake.command", "core-socket.labels")
@pytest.mark.parametrize(
    ("label", "code"), [("operator", "label_taken"), ("Bad Label", "usage"), ("ruth", "label_taken")]
)
def test_wake_refuses_labels_that_imitate(hive: Hive, label: str, code: str) -> None:
    done = hive.run("wake", "iris", "--from", label, "--body", "x", "--json")

    assert f'"code": "{code}"' in done.stdout
    assert done.returncode != 0


def test_sockets_serve_in_a_whole_hive_and_survive_kills(hive: Hive) -> None:
    files = hive.layout.agent("iris")
    assert ask(core_socket(hive), "wake", **{"from": "ci", "body": "by socket"})["ok"]
    made: dict[str, Any] = ask(files.agent_socket, "upsert_todo", subsystem="ci", key="k", summary="red")
    hive.kill("hyperhive-iris")
    hive.kill("broker")

    def serve_again() -> bool:
        try:
            todos = ask(files.agent_socket, "list_todos")["todos"]
            woken = ask(files.core_socket, "wake", **{"from": "ci", "body": "again", "idempotency_key": "k"})
        except OSError:
            return False
        return [todo["id"] for todo in todos] == [made["id"]] and bool(woken["ok"])

    eventually(serve_again, within=20, what="both sockets are back")
    assert inbox(hive)[-2:] == [("ci", "by socket"), ("ci", "again")]


@pytest.mark.requirement("core-socket.follows")
def test_sockets_go_with_their_agent(hive: Hive) -> None:
    hive.ctl("agent", "add", "milo")
    path = core_socket(hive, "milo")
    assert ask(hive.layout.agent("milo").agent_socket, "upsert_todo", subsystem="s", key="k", summary="x")[
        "ok"
    ]
    hive.ctl("agent", "stop", "milo")
    assert ask(path, "wake", **{"from": "ci", "body": "for later"})["ok"]
    assert not hive.layout.agent("milo").agent_socket.exists()
    hive.ctl("agent", "destroy", "milo", "--yes")
    eventually(lambda: not path.exists(), within=10, what="the socket is gone")
    hive.ctl("agent", "add", "milo")
    core_socket(hive, "milo")
    assert inbox(hive, "milo") == []
    assert ask(hive.layout.agent("milo").agent_socket, "list_todos")["todos"] == []


@pytest.mark.requirement("todos.mirrored")
def test_todos_are_shown_also_while_the_agent_is_down(hive: Hive) -> None:
    path = hive.layout.agent("ruth").agent_socket
    for number in range(103):
        text = {"summary": f"red [bold] \x1b[31m{number}", "detail": "x" * 8000}
        assert ask(path, "upsert_todo", subsystem="ci", key=str(number), **text)["ok"]
    last = ask(path, "list_todos")["todos"][-1]["id"]

    def mirrored() -> Any:
        page = hive.ctl("todos", "ruth")
        return page if page["total"] == 103 else None

    page = eventually(mirrored, within=20, what="all are reported")
    assert (page["agent"], page["connected"], len(page["todos"])) == ("ruth", True, 100)
    assert page["todos"][-1]["id"] == last
    assert max(len(todo["detail"]) for todo in page["todos"]) == 500
    hive.ctl("agent", "stop", "ruth")
    shown = hive.run("todos", "ruth")
    assert "red [bold]" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "the newest 100 of 103; as ruth reported " in shown.stderr
    assert "ruth is not connected" in shown.stderr
    assert {**hive.ctl("todos", "ruth"), "connected": True} == page
    hive.ctl("agent", "start", "ruth")
    ask(path, "mark_todos_done", ids=[todo["id"] for todo in ask(path, "list_todos")["todos"]])
    eventually(lambda: hive.ctl("todos", "ruth")["total"] == 0, within=20, what="the end is reported")
    assert hive.run("todos", "ruth").stdout == "no todo of ruth is open\n"
    assert hive.run("todos", "nobody", "--json").returncode == 4
