"""The units of deploy/systemd: systemd accepts them, and each is closed as far as a daemon of ours allows."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path

import pytest

from shared.layout import HiveLayout
from shared.runtime.serve import EXIT_FAILED, serve
from shared.runtime.settings import EXIT_MISCONFIGURED
from tests.support.unit_files import PREFIX, UNITS, read_unit, require_program

DAEMONS = ["hive-broker.service", "hive-mcp-http@iris.service"]
SERVICES = [*DAEMONS, "hive-nats.service"]
SOCKETS = ["hive-broker.socket", "hive-mcp-http@iris.socket"]
# docs/deploying.md has the scores as measured.
MAX_EXPOSURE = 1.5

CLOSED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "MemoryDenyWriteExecute": "yes",
    "CapabilityBoundingSet": "",
    "UMask": "0077",
    "LimitCORE": "0",
    "IPAddressDeny": "any",
    "IPAddressAllow": "localhost",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "StateDirectoryMode": "0700",
    "Restart": "on-failure",
}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit files, with programs that exist: systemd looks for them."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for program in ("hive-broker", "hive-mcp-http", "nats-server"):
        (bin_ / program).symlink_to("/bin/true")
    units = tmp_path / "units"
    units.mkdir()
    for path in UNITS.glob("*.*"):
        (units / path.name).write_text(path.read_text().replace(f"{PREFIX}/bin", str(bin_)))
    return units


def analyze(units: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = require_program("systemd-analyze")
    return subprocess.run(
        [program, "--no-pager", *arguments], cwd=units, capture_output=True, text=True, check=False
    )


def test_systemd_accepts_every_unit_without_a_word(installed: Path) -> None:
    done = analyze(installed, "verify", "--man=no", *SERVICES, *SOCKETS)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.name.replace("@", "@iris") for path in UNITS.glob("*.*")} == {*SERVICES, *SOCKETS}


@pytest.mark.parametrize("name", SERVICES)
def test_exposure_is_low(installed: Path, name: str) -> None:
    done = analyze(
        installed, "security", "--offline=true", "--json=short", f"--threshold={MAX_EXPOSURE * 10:.0f}", name
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_closed(name: str) -> None:
    unit = read_unit(name)

    assert {key: unit.value("Service", key) for key in CLOSED} == CLOSED
    assert unit.values("Service", "SystemCallFilter") == ["@system-service", "~@privileged"]
    assert unit.value("Service", "User") != "root"


@pytest.mark.parametrize("name", DAEMONS)
def test_wrong_settings_close_the_port_and_what_died_starts_again(name: str) -> None:
    unit = read_unit(name)

    assert unit.value("Service", "RestartPreventExitStatus") == str(EXIT_MISCONFIGURED)
    assert EXIT_FAILED != EXIT_MISCONFIGURED
    stop_post = unit.value("Service", "ExecStopPost")
    assert f"!= {EXIT_MISCONFIGURED} ]" in stop_post
    assert stop_post.endswith(f"systemctl stop --no-block {unit.value('Unit', 'Requires')}'")


@pytest.mark.parametrize("name", DAEMONS)
def test_systemd_waits_longer_than_a_daemon_takes_to_stop(name: str) -> None:
    limits = inspect.signature(serve).parameters
    longest = limits["grace_seconds"].default + limits["close_seconds"].default

    assert longest < int(read_unit(name).value("Service", "TimeoutStopSec"))


@pytest.mark.parametrize("name", SOCKETS)
def test_socket_is_one_on_loopback(name: str) -> None:
    assert read_unit(name).value("Socket", "ListenStream").startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["hive-mcp-http@iris.service", "hive-nats.service"])
def test_service_sees_its_own_directory_of_the_hive_only(name: str) -> None:
    unit = read_unit(name)
    own, *sockets = unit.values("Service", "BindPaths")

    assert unit.value("Service", "TemporaryFileSystem") == "/var/lib/hyperhive:ro"
    assert own == f"/var/lib/{unit.value('Service', 'StateDirectory')}"
    assert own in {"/var/lib/hyperhive/agents/iris", "/var/lib/hyperhive/nats"}
    assert sockets in ([], ["/var/lib/hyperhive/run/agents/iris"])


def test_surface_is_given_the_paths_of_its_sockets() -> None:
    unit = read_unit("hive-mcp-http@iris.service")
    files = HiveLayout(Path("/var/lib/hyperhive")).agent("iris")

    given = unit.values("Service", "Environment")
    assert f"HIVE_AGENT_SOCKET={files.agent_socket}" in given
    assert f"HIVE_CORE_SOCKET={files.core_socket}" in given
    assert unit.value("Service", "ReadWritePaths") == str(files.agent_socket.parent)
    assert unit.value("Service", "ExecStartPre").endswith(f"-m 2770 {files.agent_socket.parent}")


def test_no_program_of_an_installation_lies_where_protect_home_hides_it() -> None:
    assert all(
        read_unit(name).value("Service", "ExecStart").startswith(f"{PREFIX}/bin/") for name in SERVICES
    )
