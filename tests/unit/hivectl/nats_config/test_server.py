"""Finding the nats-server program."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.hivectl.nats_config import find_nats_server
from shared.errors import Misconfigured


def program(directory: Path, says: str) -> Path:
    path = directory / "nats-server"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_the_wheels_program_is_found_where_the_path_does_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    found = find_nats_server(None)

    assert found.name == "nats-server"
    assert ".." not in found.parts


def test_a_setting_comes_before_the_wheel(tmp_path: Path) -> None:
    path = program(tmp_path, "nats-server: v2.15.3")

    assert find_nats_server(path) == path


@pytest.mark.parametrize("version", ["2.10.27", "2.14.5", "1.99.99"])
def test_a_version_that_may_lose_notices_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(Misconfigured, match=f"{version}, which may lose notices"):
        find_nats_server(program(tmp_path, f"nats-server: v{version}"))


@pytest.mark.parametrize("version", ["2.14.6", "2.15.0", "2.15.1", "3.0.0"])
def test_a_version_that_syncs_is_taken(tmp_path: Path, version: str) -> None:
    assert find_nats_server(program(tmp_path, f"nats-server: v{version}"))


def test_what_is_no_nats_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="does not answer like nats-server"):
        find_nats_server(program(tmp_path, "hello"))
    with pytest.raises(Misconfigured, match="cannot be run"):
        find_nats_server(tmp_path / "absent")
