"""The compose file's structure. It is not run here: these tests have no container engine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from services.broker.config import Settings as BrokerSettings
from services.hyperhive_mcp.config import Settings as SurfaceSettings
from shared.runtime.settings import list_variables
from tests.support.unit_files import DEPLOY

CHECKOUT = Path(__file__).parents[3]
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


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


def test_settings_of_the_surface_exist() -> None:
    known = {variable for variable, _ in list_variables(SurfaceSettings)}
    assert SERVICES["ruth"]["environment"].keys() <= known
    assert "HIVE_ROOT" in {variable for variable, _ in list_variables(BrokerSettings)}


def test_agent_s_container_sees_its_own_directory_only() -> None:
    volumes = [re.sub(r"\$\{HIVE_ROOT:\?\}", "ROOT", volume) for volume in SERVICES["ruth"]["volumes"]]
    assert volumes == ["ROOT/agents/ruth:ROOT/agents/ruth"]
