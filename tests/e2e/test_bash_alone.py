"""The bash surface by itself: a label, a state directory and a token file, and nothing else there."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.daemon.kept import KeptState
from shared.runtime.files import make_private_dir, write_private
from shared.runtime.sockets import BACKLOG
from shared.wire.agents import Grants
from tests.support.access import LEGACY, MODERN, AgentAccess, request
from tests.support.claude import Era
from tests.support.units import Unit

pytestmark = pytest.mark.requirement("surfaces.alone")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[Unit, AgentAccess]]:
    """It runs; nobody listens on port 1, nor at the in-agent socket."""
    home = tmp_path / "iris"
    make_private_dir(home)
    make_private_dir(home / "state")
    token = secrets.token_urlsafe(32)
    write_private(home / "token", token.encode())
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    env = {
        "HIVE_URL": "http://127.0.0.1:1",
        "HIVE_LABEL": "iris",
        "HIVE_TOKEN_FILE": str(home / "token"),
        "HIVE_STATE_DIR": str(home / "state"),
        "HIVE_AGENT_SOCKET": str(home / "agent.sock"),
        "HIVE_BASH_PORT": str(listener.getsockname()[1]),
    }
    unit = Unit("hive-bash-daemon", env, listener, tmp_path / "bash.log")
    entry = {"url": f"{unit.url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    write_private(home / "mcp.json", json.dumps({"mcpServers": {"bash": entry}}).encode())
    agent = AgentAccess("iris", env["HIVE_URL"], home / "token", home / "mcp.json", home / "state", "bash")
    try:
        unit.start()
        yield unit, agent
    finally:
        unit.close()


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_it_lists_its_tools_at_once_and_tries_quietly(daemon: tuple[Unit, AgentAccess], era: Era) -> None:
    unit, iris = daemon
    iris.list_tools(era)
    state = request("GET", f"{unit.url}/api/state", token=iris.token).json()
    assert (state["broker_connected"], state["grants_version"]) == (False, None)
    assert request("POST", f"{unit.url}/mcp", body={}, token="x" * 43).status_code == 401
    assert request("GET", f"{unit.url}/api/state", token="x" * 43).status_code == 401
    # Told once, however often it is tried.
    assert unit.log_text().count("broker_not_reachable") == 1


def test_grants_of_before_hold_after_a_restart(daemon: tuple[Unit, AgentAccess]) -> None:
    unit, iris = daemon
    unit.kill()
    with closing(KeptState(iris.token_file.parent / "daemons" / "bash.sqlite")) as kept:
        kept.save_grants(Grants(groups=[], capabilities=[], version=7))
    unit.start()
    assert request("GET", f"{unit.url}/api/state", token=iris.token).json()["grants_version"] == 7


def test_a_limit_out_of_range_and_an_unknown_setting_are_named(daemon: tuple[Unit, AgentAccess]) -> None:
    unit, _ = daemon
    unit.kill()
    for name in ("HIVE_BASH_MAX_RUNNING_TASKS", "HIVE_BASH_MAX_RUNING_TASKS"):
        with pytest.raises(RuntimeError, match=r"ended with 3") as ended:
            unit.start(**{name: "0"})
        assert name in str(ended.value)
        del unit.env[name]
