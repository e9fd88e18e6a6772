"""While a task writes as fast as it can, and when the disk is full: caps hold, and the task goes on."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.support.bash import BashSurface, running_bash, state_of, supervisor_of
from tests.support.waiting import eventually

CAP = 4 << 20
# Beyond the cap: a segment while the end is put together, and what the filesystem rounds up.
DISK_SLACK = 1 << 20
REPLY_BYTES = 40_000
MEMORY_SLACK_KIB = 24 * 1024
SUPERVISOR_KIB = 48 * 1024

FLOODS = {
    "yes": "yes",
    "binary": "while :; do head -c 1000000 /dev/urandom; done",
    "progress": r"while :; do printf '\r%0100d of many' $((n += 1)); done",
    "no-line-break": "tr '\\0' x < /dev/zero",
    "escapes": r"yes \"$(printf '\033[31mred\033[0m')\"",
    "both-streams": "yes & yes >&2",
    "own-output": 'while :; do cat "$HIVE_STATE_DIR"/harness/bash-tasks/*.out; echo again; done',
}


@pytest.fixture(scope="module")
def flooded() -> Iterator[BashSurface]:
    """A surface with a small cap."""
    with running_bash(HIVE_BASH_MAX_OUTPUT_BYTES=str(CAP), HIVE_BASH_KILL_GRACE_SECONDS="1") as bash:
        bash.run("true")
        yield bash


def _peak_kib(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def _on_disk(bash: BashSurface, task: str) -> int:
    found = 0
    for file in bash.output_dir.glob(f"{task}.*"):
        # A part of the tail may go meanwhile.
        with suppress(FileNotFoundError):
            found += file.stat().st_blocks * 512
    return found


@pytest.mark.requirement("bash.flood")
@pytest.mark.parametrize("cmd", FLOODS.values(), ids=FLOODS)
def test_a_flood_stays_within_its_caps(flooded: BashSurface, cmd: str) -> None:
    before = _peak_kib(flooded.unit.pid)
    task = flooded.start(cmd)
    supervisor = eventually(partial(supervisor_of, flooded, task))

    # Long past the cap: the tail is exchanged all the time.
    eventually(lambda: "were not kept" in flooded.status(task), within=20, what="bytes dropped")
    assert _on_disk(flooded, task) <= CAP + DISK_SLACK
    for answer in (
        flooded.status(task),
        flooded.status(task, stream="out"),
        flooded.status(task, stream="out", offset=-20_000, max_bytes=28_000),
        flooded.status(task, stream="out", grep="."),
        flooded.list(),
    ):
        assert len(answer.encode()) <= REPLY_BYTES
    assert _peak_kib(supervisor) <= SUPERVISOR_KIB
    ended = flooded.kill(task)

    assert state_of(ended).startswith("killed")
    assert len(ended.encode()) <= REPLY_BYTES
    assert _peak_kib(flooded.unit.pid) <= before + MEMORY_SLACK_KIB
    eventually(lambda: _on_disk(flooded, task) <= CAP + 65_536, what="merged")


@pytest.mark.requirement("bash.flood")
def test_a_log_of_a_hundred_million_lines_is_counted_and_its_ends_are_kept(flooded: BashSurface) -> None:
    lines = 100_000_000
    total = sum(9 * 10 ** (digits - 1) * (digits + 1) for digits in range(1, 9)) + 10
    before = _peak_kib(flooded.unit.pid)
    task = flooded.start(f"seq {lines}")

    ended = eventually(
        lambda: text if "done" in state_of(text := flooded.status(task, wait_seconds=30)) else None, within=90
    )

    assert state_of(ended).startswith("done, exit code 0")
    assert f"{total:,}".replace(",", "") in ended
    assert f"\n{lines}\n" in ended
    assert flooded.status(task, stream="out", max_bytes=64).count("\n1\n2\n3\n") == 1
    assert f"\n{lines}\n" in flooded.status(task, stream="out", offset=-27)
    assert "1 line matched" in flooded.status(task, stream="out", grep="^99999999$")
    assert "were not kept (cap)" in ended
    assert _peak_kib(flooded.unit.pid) <= before + MEMORY_SLACK_KIB
    assert _on_disk(flooded, task) <= CAP + DISK_SLACK


@pytest.mark.requirement("bash.disk-full")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_costs_output_but_no_end_and_no_daemon() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="hd-") as mount,
        running_bash(HIVE_BASH_MIN_FREE_BYTES="0") as bash,
    ):
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=False)
        if made.returncode:
            pytest.skip("no tmpfs can be mounted here")
        harness = bash.state_dir / "harness"
        harness.mkdir(mode=0o700, exist_ok=True)
        subprocess.run(["mount", "--bind", mount, harness], check=True)
        try:
            full = bash.run("head -c 5000000 /dev/zero; exit 3", wait_seconds=20)
            assert state_of(full).startswith("done, exit code 3")
            assert "were not kept (disk full)" in full
            again = bash.run("echo text; exit 4", wait_seconds=20)
            assert state_of(again).startswith("done, exit code 4")
            assert "disk full" in again or "text" in again
        finally:
            bash.close()
            subprocess.run(["umount", harness], check=True)
            subprocess.run(["umount", mount], check=True)
