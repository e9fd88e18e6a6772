"""Wherever the surface runs, and whatever its agent does to its own directory: tasks run, or say why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bash import (
    BashSurface,
    id_of,
    kill_supervisor_of,
    processes_with,
    running_bash,
    running_bash_as,
    state_of,
)
from tests.support.waiting import eventually

# Of nobody that is known on any machine.
USER = 61_234

HOG = """
import os, signal, time
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except BlockingIOError:
        print("full", flush=True)
        time.sleep(0.01)
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture(
    scope="module",
    params=[
        "no-sandbox",
        pytest.param("user", marks=needs_root),
        pytest.param("user-no-sandbox", marks=needs_root),
    ],
)
def elsewhere(request: pytest.FixtureRequest) -> Iterator[BashSurface]:
    """A surface as it usually is not: without a sandbox, as an ordinary user, or both."""
    kind = str(request.param)
    settings = {"HIVE_BASH_SANDBOX": "false"} if "no-sandbox" in kind else {}
    settings["HIVE_BASH_KILL_GRACE_SECONDS"] = "1"
    with running_bash_as(USER if "user" in kind else None, settings) as running:
        yield running


@pytest.mark.requirement("bash.any-user")
def test_tasks_run_write_and_end(elsewhere: BashSurface) -> None:
    done = elsewhere.run("echo out; echo err >&2; echo kept > file; exit 3", wait_seconds=20)

    assert state_of(done).startswith("done, exit code 3")
    assert elsewhere.output(id_of(done)) == b"out\n"
    assert elsewhere.output(id_of(done), "err") == b"err\n"
    assert (elsewhere.state_dir / "file").read_text() == "kept\n"
    assert (elsewhere.state_dir / "file").stat().st_uid == elsewhere.state_dir.stat().st_uid


@pytest.mark.requirement("bash.any-user", "bash.tree-killed")
def test_all_of_a_task_is_killed(elsewhere: BashSurface) -> None:
    marker = f"2000.{elsewhere.unit.pid}"
    task = elsewhere.start(
        f"setsid sleep {marker} & (sleep {marker} &); trap '' TERM; echo up; sleep {marker}"
    )
    elsewhere.wait_for_output(task, b"up")

    assert state_of(elsewhere.kill(task)).startswith("killed")
    assert processes_with(marker) == []


@pytest.mark.requirement("bash.any-user", "bash.daemon-killed")
def test_tasks_outlive_the_daemon(elsewhere: BashSurface) -> None:
    task = elsewhere.start("read x; exit 5", stdin=True)
    lost = elsewhere.start("echo up; sleep 1000")
    elsewhere.wait_for_output(lost, b"up")
    elsewhere.unit.kill()
    kill_supervisor_of(elsewhere, lost)
    elsewhere.unit.start()

    elsewhere.send_input(task, "go\n")

    assert elsewhere.end(task).startswith("done, exit code 5")
    assert elsewhere.end(lost).startswith("interrupted")


@pytest.mark.requirement("bash.any-user", "bash.input-recognised")
def test_a_prompt_is_recognised(elsewhere: BashSurface) -> None:
    answer = elsewhere.run("printf 'name? '; read name", stdin=True, wait_seconds=20)

    assert "It waits for input" in answer
    elsewhere.kill(id_of(answer))


def _run_and_fail(bash: BashSurface) -> str | None:
    answer = bash.call("run", cmd="true", wait_seconds=20).text
    return answer if "failed: " in answer else None


@needs_root
@pytest.mark.requirement("bash.no-room")
def test_a_full_process_table_is_a_clear_failure_and_passes() -> None:
    # Another user than the tests above have, as the kernel counts by user.
    with running_bash_as(USER + 1, {"HIVE_BASH_SANDBOX": "false"}, max_processes=40) as bash:
        (bash.state_dir / "hog.py").write_text(HOG)
        hog = bash.start("exec /usr/bin/env python3 hog.py")
        bash.wait_for_output(hog, b"full")

        # A supervisor may have stood by, for one more, and what it leaves is taken soon.
        refused = eventually(lambda: _run_and_fail(bash), what="no room")

        assert "no room for another process" in refused
        assert "removed or replaced" not in refused
        bash.kill(hog)
        assert state_of(bash.run("exit 2", wait_seconds=20)).startswith("done, exit code 2")


@pytest.mark.requirement("bash.own-directory")
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "link-below"])
def test_what_the_agent_puts_in_the_place_of_its_output_is_not_followed(kind: str, tmp_path: Path) -> None:
    with running_bash(HIVE_BASH_KILL_GRACE_SECONDS="1") as bash:
        first = id_of(bash.run("echo first"))
        harness = bash.state_dir / "harness"
        there = harness / "bash-tasks" if kind == "link-below" else harness
        shutil.rmtree(there)
        if kind == "file":
            there.write_text("mine")
        else:
            there.symlink_to(tmp_path / "nothing" if kind == "dangling" else tmp_path)

        again = bash.run("echo second; exit 3", wait_seconds=20)
        gone = bash.call("status", id=first)

        assert state_of(again).startswith("done, exit code 3")
        assert "second" in again
        assert "removed" in gone.text
        assert list(tmp_path.iterdir()) == []
        assert [path.name for path in there.parent.glob(f"{there.name}.moved-*")]


@pytest.mark.requirement("bash.own-directory")
def test_output_that_a_task_removes_or_replaces_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not to be seen")
    with running_bash() as bash:
        mine = '"$HIVE_STATE_DIR"/harness/bash-tasks'
        for act in (
            f"rm -r {mine}",
            f"ln -sf {secret} {mine}/*.out",
            f"for f in {mine}/*; do mkfifo $f.x; done",
        ):
            answer = bash.run(f"{act}; echo text; exit 4", wait_seconds=20)
            assert state_of(answer).startswith("done, exit code 4")
            task = id_of(answer)
            for shown in (answer, bash.status(task), bash.status(task, stream="out")):
                assert "not to be seen" not in shown
        assert state_of(bash.run("true")).startswith("done, exit code 0")


@pytest.mark.requirement("bash.surroundings")
def test_a_task_is_told_of_its_sockets_and_of_nothing_else_that_is_the_daemons(tmp_path: Path) -> None:
    sockets = {f"HIVE_{name}_SOCKET": str(tmp_path / f"{name}.sock") for name in ("AGENT", "CORE")}
    with running_bash(**sockets, SOME_SECRET="leaked") as bash:
        bash.run("env > env; cat /proc/self/environ > environ; ls -l /proc/self/fd > fds", wait_seconds=20)

        lines = (bash.state_dir / "env").read_text().splitlines()
        hive = dict(line.split("=", 1) for line in lines if line.startswith("HIVE_"))
        assert hive == {"HIVE_LABEL": "iris", "HIVE_STATE_DIR": str(bash.state_dir), **sockets}
        for name in ("env", "environ", "fds"):
            text = (bash.state_dir / name).read_text()
            assert "leaked" not in text
            assert "token" not in text
            assert "bash-tasks.sqlite" not in text
