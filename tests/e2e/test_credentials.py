"""Credentials on disk: rotation, rebirth of a name, file modes."""

from __future__ import annotations

import stat

import pytest

from tests.support.access import AgentAccess, request
from tests.support.hive import Hive
from tests.support.hostile import HOSTILE_NAMES
from tests.support.prose import ids_of, sent_id

# No argument of a program can hold U+0000.
ARGUMENTS = {key: name for key, name in HOSTILE_NAMES.items() if "\0" not in name}


def admits(agent: AgentAccess, token: str) -> tuple[bool, bool]:
    """Whether the agent's surface, and the broker's agent tree, take a token."""
    surface = request("GET", f"{agent.surface_url}/api/state", token=token)
    broker = request("GET", f"{agent.broker_url}/v1/agent/self", token=token)
    assert {surface.status_code, broker.status_code} <= {200, 401}
    return surface.status_code == 200, broker.status_code == 200


@pytest.mark.requirement("identity.rotation")
def test_a_token_rotated_now_ends_the_old_one_at_once(hive: Hive) -> None:
    iris = hive.agent("iris")
    old = iris.token
    hive.ctl("token", "rotate", "iris", "--now")
    assert iris.token != old
    assert admits(iris, old) == (False, False)
    assert admits(iris, iris.token) == (True, True)
    assert iris.server["headers"]["Authorization"] == f"Bearer {iris.token}"
    iris.call("recv").ok()


@pytest.mark.requirement("identity.rotation")
def test_a_token_rotated_leaves_the_old_one_its_time(hive: Hive) -> None:
    iris = hive.agent("iris")
    older = iris.token
    hive.ctl("token", "rotate", "iris")
    old = iris.token
    assert admits(iris, older) == admits(iris, old) == (True, True)
    hive.ctl("token", "rotate", "iris", "--now")
    assert admits(iris, older) == admits(iris, old) == (False, False)
    assert admits(iris, iris.token) == (True, True)


@pytest.mark.requirement("identity.reborn")
def test_a_name_born_again_is_somebody_else(hive: Hive) -> None:
    hive.ctl("agent", "add", "milo")
    milo = hive.agent("milo")
    old = milo.token
    waiting = hive.operator.send("milo", "for the first milo")
    sent = sent_id(milo.call("send", to="ruth", body="from the first milo").ok())
    hive.ctl("agent", "destroy", "milo", "--yes")
    assert "milo" not in hive.hive_json()["agents"]
    assert request("GET", f"{milo.broker_url}/v1/agent/self", token=old).status_code == 401
    hive.ctl("agent", "add", "milo")
    again = hive.agent("milo")
    assert admits(again, old) == (False, False)
    assert ids_of(again.call("recv", max=5).ok()) == []
    assert again.http("GET", f"/messages/{sent}").status_code == 404
    assert "in_reply_to" in again.call("send", to="ruth", body="re", in_reply_to=waiting).error()
    ruth = hive.agent("ruth")
    assert "was destroyed" in ruth.call("send", to="milo", body="re", in_reply_to=sent).error()
    refused = hive.ctl("send", "milo", "re", "--in-reply-to", str(waiting), exits=4)
    assert refused["error"]["code"] == "recipient_destroyed"
    assert again.json("POST", "/inbox/ack", {"up_to": waiting})["acked"] == 0
    hive.ctl("agent", "destroy", "milo", "--yes")


@pytest.mark.requirement("identity.files")
def test_nothing_below_the_root_is_open_to_others(hive: Hive) -> None:
    root = hive.layout.root
    paths = [root, *(path for path in root.rglob("*") if root / "home" not in (path, *path.parents))]
    open_ones = [
        path for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink()
    ]
    assert open_ones == []
    secrets = [hive.agent("iris").token_file, hive.agent("iris").mcp_config, hive.layout.hive_json]
    secrets += [hive.operator.token_file, *root.glob("nats/*password*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


@pytest.mark.requirement("identity.files")
def test_no_command_prints_a_credential(hive: Hive) -> None:
    secrets = {hive.agent(name).token for name in ("ruth", "iris")} | {hive.operator.token}
    commands = (
        ("agent", "list"),
        ("agent", "show", "iris"),
        ("mcp-config", "iris"),
        ("doctor",),
        ("token", "rotate", "iris"),
        ("inbox",),
    )
    for command in commands:
        for form in ((), ("--json",)):
            done = hive.run(*command, *form)
            secrets.add(hive.agent("iris").token)
            assert not [secret for secret in secrets if secret in done.stdout + done.stderr], command
    assert not [secret for secret in secrets if secret in hive.tails(10_000_000)]


@pytest.mark.requirement("names.refused")
@pytest.mark.parametrize("name", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_hostile_names_are_refused_on_the_command_line(hive: Hive, name: str) -> None:
    before = sorted(path.name for path in hive.layout.root.rglob("*") if path.is_dir())
    for command in (("agent", "add"), ("agent", "show"), ("mcp-config",), ("token", "rotate")):
        done = hive.run(*command, "--", name)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
    assert sorted(path.name for path in hive.layout.root.rglob("*") if path.is_dir()) == before
