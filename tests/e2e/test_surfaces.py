"""A second surface of an agent in a real hive: there from the start, restarted alone, the same token."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shared.daemon.kept import KeptState
from tests.support.access import LEGACY, MODERN, AgentAccess, request
from tests.support.hive import Hive
from tests.support.waiting import eventually

# Later than that of any daemon: its reports count beside those of the one that runs.
BOOT = "7" + "Z" * 25
TASK = {"id": "k3v9x2mq", "state": "running", "title": "make \x1b[2J", "created_at": 5, "started_at": 6}
GONE = {"id": "k3v9x2mr", "state": "killed", "title": "sleep", "created_at": 5, "ended_at": 9, "signal": 9}


@pytest.fixture
def iris(hive: Hive) -> AgentAccess:
    return hive.agent("iris")


def state_of(agent: AgentAccess) -> Any:
    return request("GET", f"{agent.surface_url}/api/state", token=agent.token).json()


def notices_of(hive: Hive, agent: str) -> list[str]:
    eventually(lambda: hive.operator.json("GET", "/hive")["notices_waiting"] == 0)
    lines = hive.run("notices", "tail", "--no-follow", "--agent", agent, "--json").stdout.splitlines()
    return [str(json.loads(line)["type"]).split(".")[-2] for line in lines]


def test_it_serves_its_tools_in_both_eras_and_says_how_it_is(hive: Hive, iris: AgentAccess) -> None:
    bash = iris.at("bash")
    assert bash.list_tools(MODERN) == bash.list_tools(LEGACY)
    state = eventually(lambda: (now := state_of(bash))["broker_connected"] and now, what="it is connected")
    assert (state["name"], "turn_state" in state) == ("iris", False)
    shown = hive.ctl("agent", "show", "iris")
    assert shown["connected_units"] == ["bash", "hyperhive"]
    assert list(shown["urls"]) == ["hyperhive", "bash"]


@pytest.mark.requirement("surfaces.several")
def test_its_end_is_no_crash_of_the_agent(hive: Hive, iris: AgentAccess) -> None:
    before = notices_of(hive, "iris")
    boot = state_of(iris.at("bash"))["boot"]
    hive.kill("bash-iris")
    eventually(lambda: state_of(iris.at("bash"))["boot"] != boot, within=20, what="bash is back")
    assert hive.ctl("agent", "show", "iris")["running"]
    assert notices_of(hive, "iris") == before
    assert '"level": "warning", "event": "unit_exited", "name": "bash-iris"' in hive.log("supervisor")


def test_a_restart_of_the_agent_restarts_both_and_a_stop_ends_both(hive: Hive) -> None:
    before = hive.pids()
    hive.ctl("agent", "restart", "iris")
    after = hive.pids()
    assert before["bash-iris"] != after["bash-iris"]
    assert before["hyperhive-iris"] != after["hyperhive-iris"]
    hive.ctl("agent", "stop", "iris")
    assert not {"bash-iris", "hyperhive-iris"} & hive.pids().keys()
    hive.ctl("agent", "start", "iris")
    assert {"bash-iris", "hyperhive-iris"} <= hive.pids().keys()


@pytest.mark.requirement("identity.rotation")
def test_a_rotated_token_counts_at_once_for_both_and_their_calls(hive: Hive, iris: AgentAccess) -> None:
    old = iris.token
    hive.ctl("token", "rotate", "iris", "--now")
    for surface in (iris, iris.at("bash")):
        url = f"{surface.surface_url}/api/state"
        assert request("GET", url, token=old).status_code == 401
        assert request("GET", url, token=iris.token).status_code == 200
        assert surface.server["headers"] == {"Authorization": f"Bearer {iris.token}"}
    eventually(
        lambda: hive.ctl("agent", "show", "iris")["connected_units"] == ["bash", "hyperhive"],
        within=20,
        what="both are connected under the new token",
    )


@pytest.mark.requirement("paths.granted")
def test_paths_reach_both_surfaces_and_are_kept_by_them(hive: Hive, iris: AgentAccess) -> None:
    given = hive.ctl("agent", "permissions", "iris", "--path", "/srv/builds/:rw", "--path", "/opt")
    assert given["confirmed"]
    assert given["paths"] == [{"path": "/opt", "mode": "ro"}, {"path": "/srv/builds", "mode": "rw"}]
    for name in ("bash", "hyperhive"):
        kept = hive.layout.agent("iris").daemons_dir / f"{name}.sqlite"
        with closing(KeptState(kept)) as state:
            grants = state.find_grants()
        assert grants is not None
        assert [one.path for one in grants.paths] == ["/opt", "/srv/builds"]
    assert "path rw        /srv/builds\n" in hive.run("agent", "show", "iris").stdout
    for path in (hive.layout.root / "agents", hive.layout.root.parent, Path("/")):
        refused = hive.run("agent", "permissions", "iris", "--path", str(path))
        assert refused.returncode == 2, refused.stderr
        assert "HIVE_ROOT" in refused.stderr
    taken = hive.ctl("agent", "permissions", "iris", "--remove-path", "/opt", "--remove-path", "/srv/builds")
    assert taken["paths"] == []


@pytest.mark.requirement("tasks.mirrored")
def test_what_surfaces_report_is_shown_and_cannot_steer_a_terminal(hive: Hive, iris: AgentAccess) -> None:
    mirror = {"tasks": [TASK, GONE], "running": 1, "pending": 0, "as_of": 1_700_000_000}
    iris.json("POST", "/reports", {"unit": "subagent", "boot": BOOT, "tasks": mirror})
    page = hive.ctl("tasks", "iris")
    assert [(task["id"], task["surface"], task["state"]) for task in page["tasks"]] == [
        ("k3v9x2mq", "subagent", "running")
    ]
    shown = hive.run("tasks", "--all")
    assert "\x1b" not in shown.stdout + shown.stderr
    assert "killed (SIGKILL)" in shown.stdout
    assert "iris's subagent surface is not connected" in shown.stderr
    refused = hive.run("tasks", "kill", "k3v9x2mq")
    assert (refused.returncode, "not connected" in refused.stderr) == (1, True)
    assert hive.ctl("tasks", "kill", "k3v9x2mr")["outcome"] == "over"
    assert hive.run("tasks", "kill", "nonesuch").returncode == 4
    # The bash surface is asked for what nobody has reported, and knows of nothing.
    assert hive.run("tasks", "kill", "nonesuch", "--agent", "iris").returncode == 4


def test_doctor_looks_at_each_surface(hive: Hive) -> None:
    checks = {check["name"]: check for check in hive.ctl("doctor")["checks"]}
    assert checks["surface.iris.bash"]["ok"]
    pid = hive.pid_of("bash-iris")
    os.kill(pid, signal.SIGSTOP)
    try:
        found = {check["name"]: check for check in hive.ctl("doctor", exits=1)["checks"]}
    finally:
        os.kill(pid, signal.SIGCONT)
    assert not found["surface.iris.bash"]["ok"]
    assert found["surface.iris.hyperhive"]["ok"]
