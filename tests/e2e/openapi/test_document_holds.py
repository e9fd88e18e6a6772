"""The broker keeps to its OpenAPI document, whatever is sent under either credential (schemathesis)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.openapi.hooks import DECOYS
from tests.support.units import Units, running_units

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# Fuzzing stops by its count of examples long before; this is for a broker that hangs.
RUN_SECONDS = 300


@pytest.fixture(scope="module")
def broker() -> Iterator[Units]:
    """A broker with a root agent, decoys that driver events may destroy, and the two that are needed."""
    with running_units(HIVE_BROKER_PAIR_PER_MINUTE="0", HIVE_BROKER_MAX_HOPS="1000000") as units:
        units.enlist("adam")
        for number in range(DECOYS):
            units.enlist(f"decoy-{number}", parent="adam")
        for name in ("iris", "ruth"):
            units.enlist(name, parent="adam")
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
    # Else most of it was refused for want of a caller or of an agent to act on.
    assert broker.agents["ruth"].json("GET", "/self")["name"] == "ruth"
    assert broker.operator.json("GET", "/agents/iris")["id"] == iris
    assert "Traceback" not in broker.broker.log_text()
