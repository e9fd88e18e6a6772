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
from shared.sandbox.kernel import CLONE_NEWIPC, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from shared.sandbox.namespaces import FLAGS
from tests.support.unit_files import PREFIX, UNITS, read_unit, require_program

BASH = "hive-bash-daemon@iris.service"
SURFACES = ["hive-mcp-http@iris.service", BASH]
DAEMONS = ["hive-broker.service", *SURFACES]
SERVICES = [*DAEMONS, "hive-nats.service"]
SOCKETS = ["hive-broker.socket", "hive-mcp-http@iris.socket", "hive-bash-daemon@iris.socket"]
# docs/deploying.md has the scores as measured. In the bash unit programs of any kind run.
MAX_EXPOSURE = 1.5
MAX_EXPOSURE_OF_BASH = 3.3

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
# A build may compile at run time, fetch something, and ask for a route.
OPEN_IN_BASH = {"MemoryDenyWriteExecute", "IPAddressDeny", "IPAddressAllow", "RestrictAddressFamilies"}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit files, with programs that exist: systemd looks for them."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for program in ("hive-broker", "hive-mcp-http", "hive-bash-daemon", "nats-server"):
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
    most = MAX_EXPOSURE_OF_BASH if name == BASH else MAX_EXPOSURE
    done = analyze(
        installed, "security", "--offline=true", "--json=short", f"--threshold={most * 10:.0f}", name
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_closed(name: str) -> None:
    unit = read_unit(name)

    closed = {key: value for key, value in CLOSED.items() if name != BASH or key not in OPEN_IN_BASH}
    assert {key: unit.value("Service", key) for key in closed} == closed
    calls = unit.values("Service", "SystemCallFilter")
    assert calls == ["@system-service", "~@privileged"] or (name == BASH and "@module" in calls[0])
    assert unit.value("Service", "User") != "root"


def test_tasks_outlive_the_bash_daemon_and_die_alone() -> None:
    unit = read_unit(BASH)
    wanted = {"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue"}
    assert {key: unit.value("Service", key) for key in wanted} == wanted
    # What would be taken from them when the daemon stops.
    assert unit.values("Service", "RemoveIPC") == []
    namespaces = set(unit.value("Service", "RestrictNamespaces").split())
    flags = {"user": CLONE_NEWUSER, "mnt": CLONE_NEWNS, "pid": CLONE_NEWPID, "ipc": CLONE_NEWIPC}
    assert sum(flags[name] for name in namespaces) == FLAGS
    # The one refuses openat2(2), which the sandbox needs; the other hides parents from their children.
    assert unit.values("Service", "RestrictSUIDSGID") == []
    assert unit.values("Service", "ProtectProc") == []


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


@pytest.mark.parametrize("name", [*SURFACES, "hive-nats.service"])
def test_service_sees_its_own_directory_of_the_hive_only(name: str) -> None:
    unit = read_unit(name)
    own, *sockets = unit.values("Service", "BindPaths")

    assert unit.value("Service", "TemporaryFileSystem") == "/var/lib/hyperhive:ro"
    assert own == f"/var/lib/{unit.value('Service', 'StateDirectory')}"
    assert own in {"/var/lib/hyperhive/agents/iris", "/var/lib/hyperhive/nats"}
    assert sockets in ([], ["/var/lib/hyperhive/run/agents/iris"])


@pytest.mark.parametrize("name", SURFACES)
def test_surface_is_given_the_paths_of_its_sockets(name: str) -> None:
    unit = read_unit(name)
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
