"""Users, directories and an agent's units, as they come out in a root of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.unit_files import DEPLOY, UNITS, require_program

ENABLE = UNITS / "hive-agent-enable"


def install(dest: Path, kind: str) -> None:
    """Put a file for sysusers or tmpfiles where it belongs."""
    directory = dest / "etc" / f"{kind}.d"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "hyperhive.conf").write_text((DEPLOY / f"{kind}.d" / "hyperhive.conf").read_text())


def enable(dest: Path, name: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "DESTDIR": str(dest), "HIVE_PREFIX": sys.prefix}
    return subprocess.run([ENABLE, name], env=env, capture_output=True, text=True, check=False)


def add_agent(dest: Path, name: str, port: int, *, with_bash: bool = True) -> None:
    home = dest / "var/lib/hyperhive/agents" / name
    home.mkdir(parents=True)
    surfaces = ("hyperhive", "bash") if with_bash else ("hyperhive",)
    entries = {key: {"url": f"http://127.0.0.1:{port + at}/mcp"} for at, key in enumerate(surfaces)}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def users_of(dest: Path) -> list[str]:
    return [line.split(":")[0] for line in (dest / "etc/passwd").read_text().splitlines()]


def test_hive_has_a_user_without_a_shell(tmp_path: Path) -> None:
    install(tmp_path, "sysusers")

    subprocess.run([require_program("systemd-sysusers"), f"--root={tmp_path}", "hyperhive.conf"], check=True)

    assert users_of(tmp_path) == ["hyperhive"]
    assert "nologin" in (tmp_path / "etc/passwd").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes directories of other users")
def test_directories_of_the_hive_are_private(tmp_path: Path) -> None:
    for kind in ("sysusers", "tmpfiles"):
        install(tmp_path, kind)
        program = [require_program(f"systemd-{kind}"), f"--root={tmp_path}", "hyperhive.conf"]
        subprocess.run(program if kind == "sysusers" else [*program, "--create"], check=True)

    for name in ("var/lib/hyperhive", "var/lib/hyperhive/agents"):
        found = (tmp_path / name).stat()
        assert (found.st_mode & 0o777, found.st_uid != 0) == (0o700, True)


def test_agent_gets_a_user_of_its_own_and_the_port_of_its_mcp_json(tmp_path: Path) -> None:
    require_program("systemd-sysusers")
    for name, port in (("ruth", 7100), ("iris", 7110)):
        add_agent(tmp_path, name, port, with_bash=name == "iris")
        for _ in range(2):
            done = enable(tmp_path, name)
            assert done.returncode == 0, done.stderr

    units = tmp_path / "etc/systemd/system"
    for unit, port in (("hive-mcp-http@iris", 7110), ("hive-bash-daemon@iris", 7111)):
        drop_in = units / f"{unit}.socket.d/port.conf"
        assert drop_in.read_text() == f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{port}\n"
    assert not (units / "hive-bash-daemon@ruth.socket.d").exists()
    assert users_of(tmp_path) == ["hive-agent-ruth", "hive-agent-iris"]


@pytest.mark.parametrize("name", ["../x", "Iris", "9th", "", "a b", "x" * 21, "absent"])
def test_name_that_is_no_agent_changes_nothing(tmp_path: Path, name: str) -> None:
    done = enable(tmp_path, name)

    assert done.returncode == 2
    assert done.stderr.startswith("hive-agent-enable: ")
    assert list(tmp_path.iterdir()) == []


def test_port_that_is_none_is_refused(tmp_path: Path) -> None:
    add_agent(tmp_path, "iris", 1)
    config = tmp_path / "var/lib/hyperhive/agents/iris/mcp.json"
    config.write_text(json.dumps({"mcpServers": {"hyperhive": {"url": "http://127.0.0.1/mcp"}}}))

    assert "names no port" in enable(tmp_path, "iris").stderr
    assert not (tmp_path / "etc/systemd").exists()
