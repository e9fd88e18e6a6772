"""Checks that need no running hive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.hivectl.doctor.check import Check, Severity
from services.hivectl.doctor.examination import examine
from services.hivectl.doctor.files import check_agent_files
from services.hivectl.doctor.ports import ExpectedPort, check_ports, find_listener
from services.hivectl.hive_file import AgentPart, BrokerPart, HiveFile
from services.hivectl.provision import ensure_hive_files
from services.hivectl.provision.surfaces import write_mcp_config
from shared.layout import HiveLayout, PortPlan
from shared.runtime.files import make_private_dir, write_private
from tests.support.ports import free_port

TOKEN = "s3cret-of-iris-and-nobody-else"


@pytest.fixture
def port() -> int:
    """One on which nobody listens."""
    return free_port()


@pytest.fixture
def layout(tmp_path: Path, port: int) -> HiveLayout:
    """The files of a hive with one agent; nothing runs."""
    layout = HiveLayout(tmp_path / "h")
    ensure_hive_files(layout)
    paths = layout.agent("iris")
    for directory in (paths.home, paths.state_dir, paths.claude_dir, paths.daemons_dir, paths.run):
        make_private_dir(directory)
    write_private(paths.token_file, f"{TOKEN}\n".encode())
    write_mcp_config(paths, PortPlan(port), 0, TOKEN)
    part = AgentPart(
        mcp_config=paths.mcp_config,
        state_dir=paths.state_dir,
        token_file=paths.token_file,
        agent_socket=paths.agent_socket,
        core_socket=paths.core_socket,
    )
    broker = BrokerPart(url=f"http://127.0.0.1:{port}", operator_token_file=layout.operator_token_file)
    write_private(layout.hive_json, HiveFile(broker=broker, agents={"iris": part}).model_dump_json().encode())
    return layout


def _problems(layout: HiveLayout) -> dict[str, Check]:
    return {check.name: check for check in examine(layout) if check.severity is Severity.ERROR}


def test_hive_that_is_down_and_in_order_lacks_only_its_broker(layout: HiveLayout) -> None:
    problems = _problems(layout)
    assert list(problems) == ["broker"]
    assert "hivectl up" in problems["broker"].mend


def test_missing_root_is_said_and_nothing_else_is_tried(tmp_path: Path) -> None:
    assert list(_problems(HiveLayout(tmp_path / "absent"))) == ["files.root"]


def test_missing_hive_json_is_said(layout: HiveLayout) -> None:
    layout.hive_json.unlink()
    assert "hive.json is missing" in _problems(layout)["files.hive"].detail


@pytest.mark.parametrize(
    ("part", "mode", "mend"),
    [
        ("hive.json", 0o644, "chmod 600"),
        ("operator/token", 0o640, "chmod 600"),
        ("operator", 0o755, "chmod 700"),
        ("db", 0o711, "chmod 700"),
    ],
)
def test_mode_that_lets_others_in_is_found(layout: HiveLayout, part: str, mode: int, mend: str) -> None:
    (layout.root / part).chmod(mode)
    found = _problems(layout)["files.hive"]
    assert str(layout.root / part) in found.detail
    assert found.mend == f"{mend} {layout.root / part}"


def test_open_root_is_found(layout: HiveLayout) -> None:
    layout.root.chmod(0o755)
    assert "0755" in _problems(layout)["files.root"].detail


def test_agents_files_are_looked_at(layout: HiveLayout) -> None:
    paths = layout.agent("iris")
    paths.token_file.chmod(0o604)
    assert "0604" in _problems(layout)["files.agent.iris"].detail
    paths.token_file.unlink()
    assert "is missing" in _problems(layout)["files.agent.iris"].detail


def test_symbolic_link_in_place_of_a_token_is_found(layout: HiveLayout, tmp_path: Path) -> None:
    token = layout.agent("iris").token_file
    token.rename(tmp_path / "elsewhere")
    token.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in _problems(layout)["files.agent.iris"].detail


def test_tokens_that_differ_are_found_and_not_shown(layout: HiveLayout) -> None:
    write_private(layout.agent("iris").token_file, b"another-token-of-twenty\n")
    found = _problems(layout)["files.agent.iris"]
    assert found.mend == "hivectl token rotate iris"
    text = json.dumps([check.as_json() for check in examine(layout)])
    assert TOKEN not in text
    assert "another-token" not in text


def test_interrupted_agent_add_is_a_warning(layout: HiveLayout) -> None:
    make_private_dir(layout.root / "agents" / "fred")
    found = {check.name: check for check in examine(layout)}["files.agent.fred"]
    assert found.severity is Severity.WARNING
    assert "agent add fred" in found.mend


def test_process_on_a_port_is_named(port: int) -> None:
    command = [sys.executable, "-m", "http.server", "--bind=127.0.0.1", str(port)]
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as foreign:
        try:
            assert foreign.stdout is not None
            assert "Serving" in foreign.stdout.readline()
            found = find_listener(port)
            (check,) = check_ports([ExpectedPort(port, "the broker", answered=False, wanted=False)])
        finally:
            foreign.kill()
    assert found is not None
    assert found.pid == foreign.pid
    assert found.command.endswith(" -m http.server")
    assert check.severity is Severity.ERROR
    assert f"process {foreign.pid} ({found.command})" in check.detail


def test_free_port_is_fine_while_down_and_an_error_while_up(port: int) -> None:
    assert find_listener(port) is None
    down, up = check_ports(
        [
            ExpectedPort(port, "NATS", answered=False, wanted=False),
            ExpectedPort(port, "NATS", answered=False, wanted=True),
        ]
    )
    assert down.ok
    assert up.severity is Severity.ERROR


def test_what_isolates_tasks_is_said_and_no_error(layout: HiveLayout) -> None:
    found = {check.name: check for check in examine(layout)}["isolation"]
    assert found.severity is not Severity.ERROR
    assert ("tasks run isolated" in found.detail) is found.ok
    assert ("not isolated" in found.detail) is not found.ok


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_agent_with_a_user_of_its_own_is_in_order_and_one_with_another_s_is_not(layout: HiveLayout) -> None:
    home = layout.agent("iris").home
    for path in (home, *home.rglob("*")):
        os.chown(path, 4242, 4242)
    hive = HiveFile.model_validate_json(layout.hive_json.read_bytes())

    own = check_agent_files(layout, hive, user_of=lambda _: "hive-agent-iris")
    other = check_agent_files(layout, hive, user_of=lambda _: "hive-agent-ruth")

    assert all(check.ok for check in own)
    assert "belongs to" in other[0].detail
