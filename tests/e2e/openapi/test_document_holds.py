"""The broker keeps to its OpenAPI document, whatever is sent under either credential (schemathesis)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.openapi.hooks import DECOYS
from tests.support.units import Units, running_units

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# Fuzzing stops by its count of examples long before; this is for a broker that hangs.
RUN_SECONDS = 300
NEVER_DONE = [
    # A stream that is not opened, NATS that is not there, and no message that five turns failed on.
    ("POST", "/v1/agent/control"),
    ("DELETE", "/v1/operator/notice-readers/{name}"),
    ("POST", "/v1/operator/messages/{message_id}/release"),
    # No surface has reported a task.
    ("POST", "/v1/operator/agents/{name}/tasks/{task_id}/kill"),
    # Not by the root agent.
    ("DELETE", "/v1/agent/approvals/{approval_id}"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Units]:
    """A broker with a root agent, decoys that driver events may destroy, and the two that are needed."""
    limits = {"HIVE_BROKER_PAIR_PER_MINUTE": "0", "HIVE_BROKER_MAX_HOPS": "1000000"}
    with running_units(HIVE_LOG_LEVEL="debug", **limits) as units:
        units.enlist("adam")
        for number in range(DECOYS):
            units.enlist(f"decoy-{number}", parent="adam")
        for name in ("iris", "ruth"):
            units.enlist(name, parent="adam")
        # Message 1, so that there is one to ask for.
        units.agents["ruth"].json("POST", "/messages", {"to": "iris", "body": "the first"})
        units.permit("ruth", add_capabilities=["relay_permissions"])
        units.permit("adam", add_capabilities=["relay_permissions"])
        # The first ids, so that there is something to decide.
        for number in range(6):
            asker = units.agents[("ruth", "adam")[number % 2]]
            asker.json("POST", "/approvals", {"tool": "Write", "input": "x"})
        units.permit("ruth", add_groups=["scheduling"])
        for _ in range(4):
            schedule = {"targets": ["ruth"], "body": "x", "first_fire_at_unix": 4_000_000_000}
            made = units.agents["ruth"].json("POST", "/schedules", schedule)
            units.operator.json("POST", f"/approvals/{made['approval']}/approve", {})
        for _ in range(3):
            units.agents["ruth"].json(
                "POST", "/reminders", {"body": "one to cancel", "delay_seconds": 86_400}
            )
        yield units


def test_no_request_gets_an_answer_that_the_document_does_not_have(broker: Units, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(broker.operator.http("GET", "/openapi.json").text)
    ruth, iris = (broker.operator.json("GET", f"/agents/{name}")["id"] for name in ("ruth", "iris"))

    done = subprocess.run(
        [
            Path(sys.executable).parent / "schemathesis",
            *("--config-file", str(HERE / "schemathesis.toml")),
            *("run", str(document), "--url", broker.broker.url),
        ],
        env={
            **os.environ,
            "AGENT_TOKEN": broker.agents["ruth"].token,
            "OPERATOR_TOKEN": broker.operator.token,
            "SPARED_AGENTS": f"1,{iris},{ruth}",
            "SCHEMATHESIS_HOOKS": "tests.e2e.openapi.hooks",
            "PYTHONPATH": str(ROOT),
        },
        # Whatever it may write, it writes there.
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Traceback" not in broker.broker.log_text()
    # Else what was tried was refused for want of a caller, or of something to act on.
    never = sorted(list_operations(json.loads(document.read_text())) - list_done(broker))
    assert [operation for operation in never if operation not in NEVER_DONE] == []


def list_operations(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, item in document["paths"].items() for method in item}


def list_done(broker: Units) -> set[tuple[str, str]]:
    """The operations that succeeded at least once, by the broker's own log."""
    document = broker.operator.json("GET", "/openapi.json")
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in document["paths"]}
    done = set()
    for line in broker.broker.log_text().splitlines():
        if '"request_finished"' in line:
            facts = json.loads(line)
            if 200 <= facts["status"] < 300:
                done |= {
                    (facts["method"], path) for path in patterns if patterns[path].fullmatch(facts["path"])
                }
    return done
