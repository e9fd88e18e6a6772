"""`doctor` and the other commands, on a hive that is healthy, broken and down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from services.hivectl.doctor.catalogue import find_kind
from services.hivectl.sandbox_probe import SandboxProbe
from shared.revision import revision
from tests.support.hive import Hive, running_hive


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        yield hive


def _findings(hive: Hive, *, exits: int) -> dict[str, dict[str, Any]]:
    report = hive.ctl("doctor", exits=exits)
    assert report["ok"] is (exits == 0)
    for check in report["checks"]:
        assert check.keys() == {"name", "ok", "severity", "detail", "mend"}
    return {check["name"]: check for check in report["checks"] if check["severity"] == "error"}


def test_healthy_hive_has_no_errors_and_each_surface_is_tried(hive: Hive) -> None:
    report = hive.ctl("doctor")
    names = {check["name"] for check in report["checks"] if check["ok"]}
    assert {
        "files.hive",
        "files.agent.iris",
        "broker",
        "supervisor",
        "nats.reader",
        "nats.durability",
        "surface.ruth.hyperhive",
        "surface.iris.hyperhive",
        "surface.ruth.bash",
        "surface.iris.bash",
        f"port.{hive.ports.broker}",
        f"port.{hive.ports.nats}",
        "clock.broker",
        "clock.nats",
        "clock.stored",
        "supervisor.revision",
        "broker.revision",
        "agent.iris.revision",
        "open-files",
        "database.wal",
        "messages.refused",
        "nats.broker",
    } <= names
    checks = {check["name"]: check for check in report["checks"]}
    assert {name for name in checks if find_kind(name) is None} == set()
    # Not only passed for want of an answer.
    assert checks["clock.broker"]["detail"] == "the broker has the time that this machine has"
    assert checks["clock.nats"]["detail"] == "NATS has the time that this machine has"
    assert checks["open-files"]["detail"].startswith("the broker may open ")
    assert checks["database.wal"]["detail"].startswith("the write-ahead log has ")
    assert checks["supervisor.revision"]["detail"] == checks["agent.iris.revision"]["detail"] == revision()
    # One account for all: a sandbox is what there can be.
    is_apart = SandboxProbe().read().exists
    severity = "info" if is_apart else "warning"
    assert (checks["isolation"]["ok"], checks["isolation"]["severity"]) == (is_apart, severity)


def test_stopped_agent_is_no_finding(hive: Hive) -> None:
    hive.ctl("agent", "stop", "iris")
    try:
        assert _findings(hive, exits=0) == {}
    finally:
        hive.ctl("agent", "start", "iris")


def test_open_token_file_is_found(hive: Hive) -> None:
    token = hive.layout.agent("iris").token_file
    token.chmod(0o644)
    try:
        assert _findings(hive, exits=1)["files.agent.iris"]["mend"] == f"chmod 600 {token}"
    finally:
        token.chmod(0o600)


def test_surface_that_hangs_is_found(hive: Hive) -> None:
    with hive.frozen("hyperhive-iris"):
        found = _findings(hive, exits=1)
    assert found["surface.iris.hyperhive"]["mend"] == "hivectl agent restart iris"


def test_report_for_people_says_how_to_mend(hive: Hive) -> None:
    done = hive.run("doctor")
    assert done.returncode == 0
    assert "mend: " in done.stdout
    assert "0 errors" in done.stdout


def test_at_last_hive_that_is_down_is_said_by_every_command(hive: Hive) -> None:
    hive.down()
    for args in (
        ("agent", "list"),
        ("send", "iris", "x"),
        ("inbox",),
        ("notices", "tail", "--no-follow"),
    ):
        error = hive.ctl(*args, exits=6)["error"]
        assert error["code"] == "not_running"
        assert "hivectl up" in error["message"]
    assert hive.ctl("mcp-config", "iris")["urls"]
    assert _findings(hive, exits=1).keys() == {"broker", "nats.reader"}
    with socket.create_server(("127.0.0.1", hive.ports.broker)):
        found = _findings(hive, exits=1)
    assert "process " in found[f"port.{hive.ports.broker}"]["detail"]
