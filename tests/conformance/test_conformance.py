"""MCP's own suites against our host: all that is about tools passes, the rest is named with its reason."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.access import request
from tests.support.install_conformance import SUITES, find_suite
from tests.support.waiting import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN_SECONDS = 180
ARGUMENTS = {
    "2025-11-25": ("--suite", "all"),
    "2026-07-28": ("--requirements", "2026-07-28"),
}
BOTH_ERAS = {
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "tools-call-with-progress",
    "dns-rebinding-protection",
}
# What must be passed and not merely be absent from the failures.
OURS = {
    "2025-11-25": BOTH_ERAS | {"server-initialize", "ping"},
    "2026-07-28": BOTH_ERAS
    | {
        "caching",
        "http-custom-header-server-validation",
        "http-header-validation",
        "server-sse-multiple-streams",
        "server-stateless",
    },
}

Statuses = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tools of `tests.conformance.server`, in a process of their own."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as out:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.server"],
            env={**os.environ, "HIVE_LISTEN_FD": str(listener.fileno())},
            pass_fds=[listener.fileno()],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stderr=out,
        )
        try:
            eventually(lambda: request("GET", f"{address}/readyz").is_success, within=30, what=str(log))
            yield f"{address}/mcp"
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0, log.read_text()[-3000:]
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("revision", SUITES)
def test_all_that_is_ours_passes_and_the_rest_is_named(revision: str, url: str, tmp_path: Path) -> None:
    statuses = run_suite(revision, url, tmp_path)

    failed = [
        (scenario, check)
        for scenario, checks in statuses.items()
        for check, status in checks.items()
        if status == "FAILURE"
    ]
    baseline = read_baseline(HERE / f"baseline-{revision}.yml")
    unnamed = [f for f in failed if not ({f[0], " / ".join(f)} & baseline.keys())]
    stale = baseline.keys() - {scenario for scenario, _ in failed} - {" / ".join(f) for f in failed}
    assert (unnamed, sorted(stale)) == ([], [])
    assert all(baseline.values()), "a line of the baseline gives no reason"
    for scenario in OURS[revision]:
        assert scenario not in baseline
        assert "SUCCESS" in statuses[scenario].values(), (scenario, statuses[scenario])


def run_suite(revision: str, url: str, out: Path) -> Statuses:
    """Run a suite; answers each check's status, by scenario."""
    try:
        command = find_suite(revision)
    except FileNotFoundError as exc:
        if os.environ.get("CI"):
            pytest.fail(str(exc))
        pytest.skip(str(exc))
    done = subprocess.run(
        [*command, "server", "--url", url, "--output-dir", str(out), *ARGUMENTS[revision]],
        cwd=out,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    statuses: Statuses = {}
    for results in out.glob("*/checks.json"):
        # server-SCENARIO-TIME
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", results.parent.name).removeprefix("server-")
        checks = json.loads(results.read_text())
        # A check that is made several times has failed if it failed once.
        for check in sorted(checks, key=lambda check: str(check["status"]) == "FAILURE"):
            statuses.setdefault(scenario, {})[check["id"]] = check["status"]
    assert statuses, done.stdout[-3000:] + done.stderr[-3000:]
    return statuses


def read_baseline(path: Path) -> dict[str, str]:
    """Its lines, `what: why`."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {what.strip(): why.strip() for what, _, why in (line.partition(": ") for line in lines)}
