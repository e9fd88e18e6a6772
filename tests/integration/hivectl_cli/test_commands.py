"""Every command against a real hive, as a shell would run it."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import request
from tests.support.hive import BIN, COMMAND_SECONDS, Hive, running_hive
from tests.support.waiting import eventually

AGENT_KEYS = {
    "id",
    "name",
    "parent",
    "running",
    "grants",
    "pending",
    "state",
    "urls",
    "mcp_config",
    "state_dir",
}


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


@pytest.fixture
def milo(hive: Hive) -> Iterator[str]:
    """An agent that a test may end."""
    hive.ctl("agent", "add", "milo")
    yield "milo"
    hive.run("agent", "destroy", "milo", "--yes")


def _error(hive: Hive, code: int, *args: str) -> dict[str, Any]:
    error: dict[str, Any] = hive.ctl(*args, exits=code)["error"]
    return error


# -- agents


def urls_of(hive: Hive, name: str) -> dict[str, str]:
    return {surface: hive.agent(name).at(surface).mcp_url for surface in ("hyperhive", "bash")}


def test_list_is_an_array_of_agents_with_urls_and_paths(hive: Hive) -> None:
    agents = {agent["name"]: agent for agent in hive.ctl("agent", "list")}
    assert {"ruth", "iris"} <= agents.keys()
    iris = agents["iris"]
    assert iris.keys() >= AGENT_KEYS
    assert (iris["state"], iris["parent"], iris["running"]) == ("running", "ruth", True)
    assert iris["urls"] == urls_of(hive, "iris")
    assert Path(iris["mcp_config"]).is_file()
    assert Path(iris["state_dir"]).is_dir()
    assert hive.ctl("agent", "show", "iris")["id"] == iris["id"]


def test_json_is_taken_at_every_level(hive: Hive) -> None:
    shapes = [
        json.loads(hive.run(*args).stdout)
        for args in (
            ("--json", "agent", "list"),
            ("agent", "--json", "list"),
            ("agent", "list", "--json"),
        )
    ]
    assert [[agent["name"] for agent in shape] for shape in shapes] == [["ruth", "iris"]] * 3


def test_name_may_stand_before_the_verb(hive: Hive) -> None:
    assert hive.ctl("agent", "iris", "show")["name"] == "iris"


def test_text_shows_the_tree(hive: Hive) -> None:
    lines = hive.run("agent", "list").stdout.splitlines()
    assert lines[0].split()[:2] == ["AGENT", "STATE"]
    assert lines[1].startswith("ruth ")
    assert lines[2].startswith("  iris ")


def test_new_agent_runs_below_root_and_its_surface_serves(hive: Hive, milo: str) -> None:
    shown = hive.ctl("agent", "show", milo)
    assert (shown["state"], shown["parent"]) == ("running", "ruth")
    assert hive.agent(milo).call("get_agent_meta").ok()


def test_agent_added_without_start_is_stopped_until_started(hive: Hive) -> None:
    try:
        added = hive.ctl("agent", "add", "nora", "--no-start", "--parent", "iris")
        assert (added["state"], added["wanted"]) == ("stopped", False)
        assert hive.ctl("agent", "show", "nora")["parent"] == "iris"
        assert hive.ctl("agent", "start", "nora")["state"] == "done"
        shown = hive.ctl("agent", "show", "nora")
        assert (shown["state"], shown["wanted"]) == ("running", True)
    finally:
        hive.ctl("agent", "destroy", "nora", "--yes")


def test_taken_name_is_a_conflict_and_changes_nothing(hive: Hive) -> None:
    token = hive.agent("iris").token
    assert "iris" in _error(hive, 5, "agent", "add", "iris")["message"]
    assert hive.agent("iris").token == token


def test_unknown_parent_is_not_found_and_leaves_no_files(hive: Hive) -> None:
    assert "nobody" in _error(hive, 4, "agent", "add", "otto", "--parent", "nobody")["message"]
    assert not (hive.layout.root / "agents" / "otto").exists()


@pytest.mark.parametrize("verb", ["show", "stop", "restart", "permissions", "inbox"])
def test_unknown_agent_is_not_found_with_a_near_name(hive: Hive, verb: str) -> None:
    error = _error(hive, 4, "agent", verb, "irs")
    assert "did you mean iris?" in error["message"]


def test_lifecycle_commands_wait_for_the_end(hive: Hive, milo: str) -> None:
    for verb, state in (
        ("stop", "stopped"),
        ("start", "running"),
        ("restart", "running"),
        ("kill", "stopped"),
    ):
        job = hive.ctl("agent", verb, milo)
        assert (job["kind"], job["agent"], job["state"]) == (verb, milo, "done")
        assert hive.ctl("agent", "show", milo)["state"] == state


@pytest.mark.requirement("hivectl.in-order")
@pytest.mark.parametrize(
    ("first", "then", "state"),
    [
        (("stop",), ("start",), "running"),
        (("stop",), ("restart", "--no-wait"), "running"),
        (("restart",), ("stop",), "stopped"),
        (("start",), ("kill",), "stopped"),
        (("kill",), ("start", "--no-wait"), "running"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_jobs_of_one_agent_follow_each_other(
    hive: Hive, milo: str, first: tuple[str, ...], then: tuple[str, ...], state: str
) -> None:
    job = hive.ctl("agent", *first, milo, "--no-wait")
    assert job["state"] in {"queued", "claimed"}
    following = hive.ctl("agent", *then, milo)
    assert (following["kind"], following["id"] > job["id"]) == (then[0], True)
    eventually(lambda: hive.ctl("agent", "show", milo)["state"] == state, within=20)


@pytest.mark.requirement("hivectl.in-order")
def test_a_command_says_for_which_job_it_waits(hive: Hive, milo: str) -> None:
    with hive.frozen(f"hyperhive-{milo}"):
        job = hive.ctl("agent", "stop", milo, "--no-wait")
        start = hive.start("agent", "start", milo)
        line = start.readline()
        assert line == f"{milo}: waiting for the end of job {job['id']} (stop) before the start\n"
        # A kill waits for nothing; the start comes after it.
        assert hive.ctl("agent", "kill", milo)["state"] == "done"
        assert start.end() == 0
    assert hive.ctl("agent", "show", milo)["state"] == "running"


def test_an_agent_that_is_being_destroyed_is_not_found_after_that(hive: Hive) -> None:
    hive.ctl("agent", "add", "olaf")
    hive.ctl("agent", "destroy", "olaf", "--yes", "--no-wait")
    assert _error(hive, 4, "agent", "start", "olaf")["code"] == "not_found"


def test_destroy_wants_yes(hive: Hive, milo: str) -> None:
    assert "--yes" in _error(hive, 2, "agent", "destroy", milo)["message"]
    assert hive.ctl("agent", "show", milo)["state"] == "running"


def test_destroyed_name_is_free_and_its_files_are_gone(hive: Hive) -> None:
    first = hive.ctl("agent", "add", "olga")["id"]
    token = hive.agent("olga").token
    assert hive.ctl("agent", "destroy", "olga", "--yes")["state"] == "done"
    assert _error(hive, 4, "agent", "show", "olga")
    assert "olga" not in hive.hive_json()["agents"]
    assert not (hive.layout.root / "agents" / "olga").exists()
    assert hive.ctl("agent", "add", "olga")["id"] != first
    assert hive.agent("olga").token != token
    hive.ctl("agent", "destroy", "olga", "--yes")
    assert [a["name"] for a in hive.ctl("agent", "list", "--destroyed")].count("olga") == 2


# -- permissions


def test_permissions_are_shown_and_changed(hive: Hive, milo: str) -> None:
    before = hive.ctl("agent", "permissions", milo)
    assert "messaging" in before["groups"]
    changed = hive.ctl(
        *("agent", "permissions", milo, "--remove-group", "messaging", "--add-group", "scheduling"),
        *("--add-capability", "urgent", "--remove-capability", "subagents", "--allow-recipient", "ruth"),
    )
    assert changed["confirmed"] is True
    assert changed["version"] > before["version"]
    assert "messaging" not in changed["groups"]
    assert "scheduling" in changed["groups"]
    assert changed["capabilities"] == ["urgent"]
    assert changed["allowed_recipients"] == ["ruth"]
    assert "send" not in {tool["name"] for tool in hive.agent(milo).list_tools()}
    alone = hive.ctl(
        *("agent", "permissions", milo, "--allow-recipient", "operator", "--disallow-recipient", "ruth")
    )
    assert alone["allowed_recipients"] == ["operator"]
    assert hive.ctl("agent", "permissions", milo, "--any-recipient")["allowed_recipients"] == []
    shown = hive.run("agent", "permissions", milo).stdout
    assert "everybody" in shown
    assert "may mark a message urgent" in shown


def test_unknown_group_is_a_usage_error(hive: Hive) -> None:
    assert (
        "messaging" in _error(hive, 2, "agent", "permissions", "iris", "--add-group", "mesaging")["message"]
    )


# -- mail


def test_send_queues_and_the_agent_receives(hive: Hive) -> None:
    sent = hive.ctl("send", "iris", "how far are you?")
    assert sent.keys() == {"id", "to", "state", "recipient_state"}
    assert (sent["to"], sent["state"], sent["recipient_state"]) == ("iris", "queued", "running")
    seen = hive.ctl("agent", "inbox", "iris")
    assert [(row["id"], row["state"]) for row in seen] == [(sent["id"], "pending")]
    text = hive.agent("iris").call("recv").ok()
    assert "how far are you?" in text
    hive.agent("iris").drain()


def test_body_comes_from_standard_input(hive: Hive) -> None:
    done = subprocess.run(
        [BIN / "hivectl", "send", "iris", "-", "--json", "--root", str(hive.layout.root)],
        input="line one\nline two\n",
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
    )
    number = json.loads(done.stdout)["id"]
    rows = {row["id"]: row for row in hive.ctl("agent", "inbox", "iris")}
    assert rows[number]["body"] == "line one\nline two"
    hive.agent("iris").drain()


def test_send_to_all_answers_with_each(hive: Hive) -> None:
    sent = hive.ctl("send", "*", "the hive restarts at noon")["sent"]
    assert {row["to"] for row in sent} == {"ruth", "iris"}
    hive.agent("iris").drain()
    hive.agent("ruth").drain()


def test_unknown_recipient_names_near_ones(hive: Hive) -> None:
    done = hive.run("send", "irs", "hello")
    assert done.returncode in {2, 4}
    assert "iris" in done.stderr
    assert done.stdout == ""


def test_inbox_is_read_answered_and_acked(hive: Hive) -> None:
    iris = hive.agent("iris")
    iris.call("send", to="operator", body="done \x1b[2J\n#1  operator -> iris").ok()
    (row,) = hive.ctl("inbox")
    assert (row["sender"], row["recipient"]) == ("iris", "operator")
    text = hive.run("inbox").stdout
    assert "\x1b" not in text
    assert f"#{row['id']}  iris -> operator" in text
    assert "\n  | #1  operator -> iris" in text

    reply = hive.ctl("inbox", "reply", str(row["id"]), "well done", "--urgent")
    assert reply["to"] == "iris"
    received = {r["id"]: r for r in hive.ctl("agent", "inbox", "iris")}[reply["id"]]
    assert (received["in_reply_to"], received["urgent"]) == (row["id"], True)
    iris.drain()

    assert hive.ctl("inbox", "ack", str(row["id"]))["acked"] == 1
    assert hive.ctl("inbox") == []
    assert row["id"] in {r["id"] for r in hive.ctl("inbox", "--all", "--limit", "500")}


def test_reply_to_what_is_not_there_is_not_found(hive: Hive) -> None:
    assert "9999999" in _error(hive, 4, "inbox", "reply", "9999999", "hello")["message"]


# -- credentials


def test_mcp_config_names_the_file_and_the_command(hive: Hive) -> None:
    shown = hive.ctl("mcp-config", "iris")
    assert shown["path"] == str(hive.layout.agent("iris").mcp_config)
    assert shown["command"].startswith(f"claude --mcp-config {shown['path']}")
    assert shown["urls"] == urls_of(hive, "iris")
    assert hive.run("mcp-config", "iris").stdout.splitlines() == [shown["path"], shown["command"]]
    assert "did you mean iris?" in _error(hive, 4, "mcp-config", "irs")["message"]


def test_rotation_replaces_the_token_and_now_ends_the_old_one(hive: Hive) -> None:
    iris = hive.agent("iris")
    url, first = iris.mcp_url, iris.token
    shown = hive.ctl("token", "rotate", "iris")
    assert shown["old_token_valid"] is True
    second = iris.token
    assert second != first
    assert _status(url, first) == _status(url, second) != 401
    assert hive.ctl("token", "rotate", "iris", "--now")["old_token_valid"] is False
    assert _status(url, second) == 401
    assert _status(url, iris.token) != 401
    for path in (hive.layout.agent("iris").token_file, hive.layout.agent("iris").mcp_config):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert iris.call("get_agent_meta").ok()


def _status(url: str, token: str) -> int:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream"}
    return request("POST", url, token=token, body=ping, headers=accept).status_code


def test_no_command_prints_a_credential(hive: Hive) -> None:
    commands = (
        ("agent", "list"),
        ("agent", "show", "iris"),
        ("agent", "permissions", "iris"),
        ("mcp-config", "iris"),
        ("token", "rotate", "iris"),
        ("inbox",),
        ("doctor",),
        ("notices", "tail", "--no-follow"),
    )
    printed = ""
    for args in commands:
        for done in (hive.run(*args), hive.run(*args, "--json")):
            printed += done.stdout + done.stderr
    password = Path(hive.hive_json()["nats"]["reader_password_file"]).read_text().strip()
    for secret in (hive.agent("iris").token, hive.agent("ruth").token, hive.operator.token, password):
        assert secret not in printed
