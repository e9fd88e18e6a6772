"""`hivectl up --detach` and `down` as an operator uses them: what runs, what is where, what stays alone."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.layout import PortPlan
from tests.support.hive import BIN, Hive, running_hive
from tests.support.ports import find_port_base
from tests.support.waiting import eventually

WITHOUT_IRIS = ["bash-ruth", "broker", "fork-server", "hyperhive-ruth", "nats"]
EVERYTHING = sorted([*WITHOUT_IRIS, "bash-iris", "hyperhive-iris"])


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


@contextmanager
def new_root() -> Iterator[Hive]:
    """A root, with a space in its name, in which no hive has run yet."""
    with tempfile.TemporaryDirectory(prefix="hh-", ignore_cleanup_errors=True) as directory:
        root = Path(directory) / "a hive"
        (root / "home").mkdir(parents=True)
        fresh = Hive(root, PortPlan(find_port_base()))
        try:
            yield fresh
        finally:
            fresh.close()


def notices_of(hive: Hive, agent: str) -> list[str]:
    """What has become of an agent, oldest first; all that the broker knows is on the stream."""
    eventually(lambda: hive.operator.json("GET", "/hive")["notices_waiting"] == 0)
    lines = hive.run("notices", "tail", "--no-follow", "--agent", agent, "--json").stdout.splitlines()
    kinds = [str(json.loads(line)["type"]).split(".")[-2] for line in lines]
    return [kind for kind in kinds if kind != "revision_changed"]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_nats_the_broker_and_each_agent_run(hive: Hive) -> None:
    assert sorted(hive.pids()) == EVERYTHING
    agents = {agent["name"]: agent for agent in hive.ctl("agent", "list")}
    assert {name: (agent["parent"], agent["running"]) for name, agent in agents.items()} == {
        "ruth": (None, True),
        "iris": ("ruth", True),
    }


def test_hive_json_leads_to_everything(hive: Hive) -> None:
    content = hive.hive_json()
    assert content["broker"]["url"] == f"http://127.0.0.1:{hive.ports.broker}"
    assert content["nats"]["url"] == f"nats://127.0.0.1:{hive.ports.nats}"
    assert sorted(content["agents"]) == ["iris", "ruth"]
    for block, name in enumerate(("ruth", "iris")):
        config = json.loads(Path(content["agents"][name]["mcp_config"]).read_text())
        token = Path(content["agents"][name]["token_file"]).read_text().strip()
        assert list(config["mcpServers"]) == ["hyperhive", "bash"]
        for surface, entry in config["mcpServers"].items():
            assert entry["url"] == f"http://127.0.0.1:{hive.ports.surface(block, surface)}/mcp"
            assert entry["headers"] == {"Authorization": f"Bearer {token}"}


def test_all_files_are_private(hive: Hive) -> None:
    for path in hive.layout.root.rglob("*"):
        if path.is_relative_to(hive.layout.nats_dir / "store") or path.is_relative_to(
            hive.layout.root / "home"
        ):
            continue
        mode = path.stat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} {mode:o}"


def test_no_secret_is_in_a_command_line_or_a_log(hive: Hive) -> None:
    secrets = [path.read_text().strip() for path in hive.layout.root.rglob("token")]
    secrets += [path.read_text().strip() for path in hive.layout.nats_dir.rglob("*.password")]
    assert len(secrets) >= 6
    shown = [Path(f"/proc/{pid}/cmdline").read_text() for pid in hive.pids().values()]
    shown += [path.read_text(errors="replace") for path in hive.layout.logs_dir.iterdir()]
    assert not [secret for secret in secrets for text in shown if secret in text]


def test_repeated_it_leaves_what_runs_alone_and_says_where_it_is(hive: Hive) -> None:
    before = hive.pids()
    again = hive.ctl("up", "--detach")
    assert hive.pids() == before
    assert sorted(again["agents"]) == ["iris", "ruth"]
    assert again["agents"]["iris"]["claude"].startswith("claude --mcp-config ")
    in_foreground = hive.run("up")
    assert in_foreground.returncode == 0
    assert f"http://127.0.0.1:{hive.ports.surface(1, 'hyperhive')}/mcp" in in_foreground.stdout
    assert f"stop: hivectl down --root {hive.layout.root}\n" in in_foreground.stdout
    assert hive.pids() == before


def test_repeated_with_a_name_it_starts_that_agent_besides(hive: Hive) -> None:
    before = hive.pids()
    hive.up("--agent", "gina", "--agent", "iris")
    after = hive.pids()
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["bash-gina", "hyperhive-gina"]
    hive.ctl("agent", "destroy", "gina", "--yes")
    assert not is_open(hive.ports.surface(2, "hyperhive"))


@pytest.mark.parametrize("damage", [None, "{", '{"broker": {}}'], ids=["gone", "not JSON", "incomplete"])
def test_repeated_it_mends_hive_json(hive: Hive, damage: str | None) -> None:
    before = hive.hive_json()
    hive.layout.hive_json.unlink()
    if damage is not None:
        hive.layout.hive_json.write_text(damage)
    pids = hive.pids()
    hive.up()
    assert (hive.hive_json(), hive.pids()) == (before, pids)
    assert hive.layout.hive_json.stat().st_mode & 0o777 == 0o600


def test_repeated_with_other_settings_it_refuses(hive: Hive) -> None:
    refused = hive.run("up", "--port-base", str(hive.ports.base + 200))
    assert refused.returncode == 5
    assert "hivectl down" in refused.stderr


@pytest.mark.parametrize("name", ["nats", "broker", "hyperhive-iris", "bash-iris"])
def test_what_is_killed_comes_back(hive: Hive, name: str) -> None:
    others = {unit: pid for unit, pid in hive.pids().items() if unit != name}
    hive.kill(name)
    hive.pid_of(name)
    eventually(lambda: hive.ctl("agent", "show", "iris")["running"], what="iris runs again")
    eventually(lambda: is_open(hive.ports.nats), what="NATS answers")
    assert {unit: pid for unit, pid in hive.pids().items() if unit != name} == others


def test_a_call_made_while_its_surface_restarts_waits_for_the_next_one(hive: Hive) -> None:
    old = hive.pid_of("hyperhive-iris")
    os.kill(old, 9)
    url = f"http://127.0.0.1:{hive.ports.surface(1, 'hyperhive')}/healthz"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert json.load(answer) == {"status": "ok"}
    assert hive.pid_of("hyperhive-iris") != old


def test_one_stopped_or_never_started_stays_down_over_down_and_up_and_its_port_is_refused(hive: Hive) -> None:
    hive.ctl("agent", "stop", "iris")
    hive.ctl("agent", "add", "nora", "--no-start")
    assert not is_open(hive.ports.surface(1, "hyperhive"))
    hive.down()
    assert hive.pids() == {}
    assert not is_open(hive.ports.broker)
    hive.up()
    assert sorted(hive.pids()) == WITHOUT_IRIS
    assert not is_open(hive.ports.surface(1, "hyperhive"))
    hive.up("--agent", "iris")
    assert "hyperhive-iris" in hive.pids()
    hive.ctl("agent", "destroy", "nora", "--yes")


def test_an_up_while_the_hive_goes_down_waits_and_starts_it_again(hive: Hive) -> None:
    hive.up("--agent", "iris")
    with hive.frozen("hyperhive-iris"):
        first = hive.start("down")
        assert "stopping" in first.readline()
        eventually(lambda: "stopping" in hive.log("supervisor"), what="the signal arrived")
        second = hive.start("down")
        third = hive.start("up", "--detach")
        assert "waiting until the hive" in third.readline()
        # A second `down` only waits too: it must not cut short what the first one has begun.
        assert "hyperhive-iris" in hive.pids()
    assert (first.end(), second.end(), third.end()) == (0, 0, 0)
    assert "hyperhive-iris" in hive.pids()


@pytest.mark.requirement("restart.down")
def test_a_restart_that_down_cuts_off_is_not_done_again_by_the_next_up(hive: Hive) -> None:
    hive.up("--agent", "iris")
    before = len(notices_of(hive, "iris"))
    signals = hive.log("supervisor").count('"stopping"')
    with hive.frozen("hyperhive-iris"):
        job = hive.ctl("agent", "restart", "iris", "--no-wait")
        eventually(lambda: hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "claimed")
        down = hive.start("down")
        eventually(lambda: hive.log("supervisor").count('"stopping"') > signals, what="the signal arrived")
    assert down.end() == 0
    hive.up()
    ended = hive.operator.json("GET", f"/jobs/{job['id']}")
    assert (ended["state"], ended["error"]) == (
        "failed",
        "the hive went down meanwhile; the next `hivectl up` starts iris",
    )
    # A job of now comes after all that an earlier one would have done.
    hive.ctl("agent", "stop", "iris")
    assert notices_of(hive, "iris")[before:] == ["stopped", "started", "stopped"]


@pytest.mark.requirement("restart.down")
def test_a_restart_that_a_killed_supervisor_left_is_fulfilled_by_the_next_up(hive: Hive) -> None:
    hive.up("--agent", "iris")
    before = len(notices_of(hive, "iris"))
    with hive.frozen("hyperhive-iris"):
        job = hive.ctl("agent", "restart", "iris", "--no-wait")
        eventually(lambda: hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "claimed")
        os.kill(json.loads((hive.layout.run_dir / "supervisor.lock").read_text())["pid"], 9)
    hive.up()
    eventually(lambda: hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "done", within=20)
    hive.ctl("agent", "stop", "iris")
    assert notices_of(hive, "iris")[before:] == ["crashed", "started", "stopped"]


@pytest.mark.requirement("hivectl.in-order")
def test_an_agent_that_up_names_is_started_after_a_stop_that_is_still_open(hive: Hive) -> None:
    hive.up("--agent", "iris")
    with hive.frozen("hyperhive-iris"):
        job = hive.ctl("agent", "stop", "iris", "--no-wait")
        eventually(lambda: hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "claimed")
        os.kill(json.loads((hive.layout.run_dir / "supervisor.lock").read_text())["pid"], 9)
    hive.up("--agent", "iris")
    assert hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "done"
    assert "hyperhive-iris" in hive.pids()


@pytest.mark.requirement("notices.cut-short")
def test_destroyed_is_the_only_notice_of_a_destroy_also_during_a_restart_that_hangs(hive: Hive) -> None:
    hive.up()
    hive.ctl("agent", "add", "olga")
    with hive.frozen("hyperhive-olga"):
        job = hive.ctl("agent", "restart", "olga", "--no-wait")
        eventually(lambda: hive.operator.json("GET", f"/jobs/{job['id']}")["state"] == "claimed")
        assert hive.ctl("agent", "destroy", "olga", "--yes")["state"] == "done"
    assert notices_of(hive, "olga") == ["started", "destroyed"]


@pytest.mark.requirement("hivectl.damage")
@pytest.mark.requirement("restart.damaged-alone")
def test_one_agent_s_damaged_files_keep_nobody_else_down(hive: Hive) -> None:
    hive.ctl("agent", "add", "gina", "--no-start")
    hive.down()
    for name in ("iris", "gina"):
        hive.layout.agent(name).token_file.write_text("damaged")
    up = hive.ctl("up", "--detach", exits=1)
    assert sorted(up["agents"]) == ["ruth"]
    # Of gina, who was to stay down, nothing is said.
    token = hive.layout.agent("iris").token_file
    mend = "remove it, then `hivectl token rotate iris` and `hivectl agent start iris`"
    assert up["failed"] == [f"iris did not start: {token} holds no token; {mend}"]
    assert not is_open(hive.ports.surface(1, "hyperhive"))
    again = hive.ctl("up", "--detach", "--agent", "iris", "--agent", "hugo", exits=1)
    assert sorted(again["agents"]) == ["hugo", "ruth"]
    assert again["failed"] == up["failed"]
    hive.ctl("token", "rotate", "iris")
    hive.ctl("agent", "start", "iris")
    hive.agent("iris").call("recv").ok()
    token.unlink()
    hive.ctl("agent", "stop", "iris")
    assert sorted(hive.ctl("up", "--detach", "--agent", "iris")["agents"]) == ["hugo", "iris", "ruth"]
    for name in ("gina", "hugo"):
        hive.ctl("agent", "destroy", name, "--yes")


def test_down_finds_the_supervisor_of_a_damaged_lock_and_doctor_says_that_it_is(hive: Hive) -> None:
    hive.up()
    lock = hive.layout.run_dir / "supervisor.lock"
    lock.write_text('{"pid": 1, "started_at"')
    found = {check["name"]: check for check in hive.ctl("doctor")["checks"] if not check["ok"]}
    assert str(lock) in found["files.contents"]["detail"]
    assert "hivectl down" in found["files.contents"]["mend"]
    hive.down()
    assert hive.pids() == {}
    hive.up()
    assert "files.contents" not in {
        check["name"] for check in hive.ctl("doctor")["checks"] if not check["ok"]
    }


def test_a_lock_that_was_removed_costs_no_unit_its_life() -> None:
    with new_root() as fresh:
        fresh.up()
        before = fresh.pids()
        lock = fresh.layout.run_dir / "supervisor.lock"
        supervisor = json.loads(lock.read_text())["pid"]
        lock.unlink()
        for command in (["down"], ["up", "--detach"]):
            refused = fresh.run(*command)
            assert (refused.returncode, f"`kill {supervisor}`" in refused.stderr) == (5, True), refused.stderr
        assert fresh.pids() == before
        os.kill(supervisor, signal.SIGTERM)
        eventually(lambda: fresh.pids() == {}, within=30, what="the hive is down")


def test_of_two_at_once_one_runs_the_hive_and_the_other_joins() -> None:
    with new_root() as fresh:
        base = ("--port-base", str(fresh.ports.base))
        both = [fresh.start("up", "--detach", *base), fresh.start("up", "--detach", *base)]
        assert [one.end() for one in both] == [0, 0]
        assert sorted(fresh.pids()) == WITHOUT_IRIS


def test_down_is_down_where_nothing_runs(tmp_path: Path) -> None:
    nothing = subprocess.run(
        [BIN / "hivectl", "down", "--root", tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert nothing.returncode == 0
    assert "no hive runs" in nothing.stderr


def test_after_a_killed_supervisor_the_next_up_takes_over(hive: Hive) -> None:
    hive.up("--agent", "iris")
    supervisor = json.loads((hive.layout.run_dir / "supervisor.lock").read_text())["pid"]
    os.kill(supervisor, 9)
    hive.up()
    assert sorted(hive.pids()) == EVERYTHING
    inbox = json.dumps(hive.ctl("agent", "inbox", "ruth", "--all"))
    assert "ContainerCrash" in inbox


def test_a_port_that_is_taken_is_said_before_anything_is_started() -> None:
    with new_root() as fresh, socket.create_server(("127.0.0.1", fresh.ports.nats)):
        refused = fresh.run("up", "--detach", "--port-base", str(fresh.ports.base))
        assert refused.returncode == 3
        assert f"nats: port {fresh.ports.nats} is taken; set --port-base" in refused.stderr
        assert not (fresh.layout.run_dir / "children.json").exists()


def test_a_detached_hive_keeps_none_of_the_caller_s_descriptors(hive: Hive) -> None:
    hive.down()
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb") as pipe:
        os.set_inheritable(write_fd, True)
        done = subprocess.run(
            [BIN / "hivectl", "up", "--detach", "--root", hive.layout.root],
            stdin=subprocess.DEVNULL,
            stdout=write_fd,
            stderr=write_fd,
            pass_fds=(write_fd,),
            timeout=60,
            check=False,
        )
        os.close(write_fd)
        # Ends only because nobody has the other side any more.
        assert "is up" in pipe.read().decode()
    assert done.returncode == 0


def test_settings_of_the_caller_reach_the_units_and_bad_ones_are_shown() -> None:
    with new_root() as fresh:
        base = ("--port-base", str(fresh.ports.base))
        failed = fresh.run("up", "--detach", *base, env={"HIVE_BROKER_MAX_PENDING": "many"})
        assert failed.returncode == 3
        assert failed.stderr.count("HIVE_BROKER_MAX_PENDING") == 1
        assert fresh.pids() == {}


def test_a_root_with_spaces_and_closed_streams_will_do() -> None:
    with new_root() as fresh:
        command = f'exec "$0" up --detach --root "$1" --port-base {fresh.ports.base} <&- >&- 2>&-'
        done = subprocess.run(
            ["/bin/sh", "-c", command, BIN / "hivectl", fresh.layout.root], timeout=60, check=False
        )
        assert done.returncode == 0
        assert sorted(fresh.pids()) == WITHOUT_IRIS
