"""Whatever a task does with its processes, its end is right and prompt, and nothing of it stays behind."""

from __future__ import annotations

import os
import secrets

import pytest

from tests.support.bash import BashSurface, id_of, is_alive, kill_supervisor_of, processes_with, state_of
from tests.support.waiting import eventually


@pytest.fixture
def marker() -> str:
    """Seconds to sleep that no other process sleeps."""
    return f"1000.{secrets.randbelow(10**9):09}"


# What tries to get away, and goes on when the shell has ended or is told to.
ESCAPES = {
    "setsid": "setsid sleep {m} & ",
    "double-fork": "(sleep {m} & ) ; ",
    "double-fork-setsid": "(setsid sh -c '(sleep {m} &) ; sleep {m}' &) ; ",
    "nohup": "nohup sleep {m} >/dev/null 2>&1 & ",
    "ignores-term": "sh -c 'trap \"\" TERM HUP INT; sleep {m}; sleep {m}' & ",
    "stopped": "sh -c 'kill -STOP $$; sleep {m}' sleep {m} & ",
    "renamed": "bash -c 'exec -a innocent sleep {m}' & ",
    "own-group": "bash -mc 'sleep {m} & sleep {m}' & ",
}
escapes = pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)


@escapes
@pytest.mark.requirement("bash.tree-killed")
def test_kill_takes_all_that_a_task_started(bash: BashSurface, marker: str, escape: str) -> None:
    task = bash.start(escape.format(m=marker) + f"echo ready; sleep {marker}")
    bash.wait_for_output(task, b"ready")
    assert processes_with(marker)

    answer = bash.kill(task)

    assert state_of(answer).startswith("killed, signal"), answer
    assert processes_with(marker) == []


@escapes
@pytest.mark.requirement("bash.timeout")
def test_a_timeout_takes_all_that_a_task_started(bash: BashSurface, marker: str, escape: str) -> None:
    answer = bash.run(
        escape.format(m=marker) + f"echo ready; sleep {marker}", timeout_secs=0.3, wait_seconds=20
    )

    assert state_of(answer).startswith("timed_out, signal"), answer
    assert processes_with(marker) == []


@escapes
@pytest.mark.requirement("bash.leftovers-ended")
def test_what_a_command_leaves_running_is_ended_and_named(
    bash: BashSurface, marker: str, escape: str
) -> None:
    answer = bash.run(escape.format(m=marker) + "exit 3", wait_seconds=20)

    assert state_of(answer).startswith("done, exit code 3"), answer
    assert "It left these running, which were ended: " in answer
    assert processes_with(marker) == []


@pytest.mark.requirement("bash.prompt-end")
def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_end(bash: BashSurface, marker: str) -> None:
    answer = bash.run(f"echo first; setsid sleep {marker} & exit 0", wait_seconds=20)

    assert state_of(answer).startswith("done, exit code 0")
    assert "first" in answer


@pytest.mark.requirement("bash.prompt-end")
def test_the_last_stage_of_a_pipe_may_finish_after_the_shell(bash: BashSurface) -> None:
    answer = bash.run("bash -c 'echo early; echo late > >(sleep 0.05; cat)'", wait_seconds=20)

    assert state_of(answer).startswith("done, exit code 0")
    assert "early" in answer
    assert "late" in answer


@pytest.mark.requirement("bash.true-end")
@pytest.mark.parametrize(
    ("cmd", "end"),
    [
        ("exit 0", "done, exit code 0"),
        ("exit 255", "done, exit code 255"),
        ("kill -9 $$", "done, signal 9 (SIGKILL)"),
        ("kill -SEGV $$", "done, signal 11 (SIGSEGV)"),
        ("sh -c 'exit 7' & wait $!", "done, exit code 7"),
        ("no-such-program-at-all", "done, exit code 127"),
    ],
)
def test_the_exit_code_or_signal_is_the_shells_own(bash: BashSurface, cmd: str, end: str) -> None:
    assert state_of(bash.run(cmd)).startswith(end)


@pytest.mark.requirement("bash.true-end")
def test_a_zombie_of_a_task_does_not_hold_it_up(bash: BashSurface) -> None:
    cmd = "python3 -c 'import os, time; os.fork() or os._exit(0); print(1, flush=True); time.sleep(0.1)'"

    assert state_of(bash.run(cmd, wait_seconds=20)).startswith("done, exit code 0")


@pytest.mark.requirement("bash.kill-early")
def test_a_task_that_is_killed_as_it_starts_is_told_so_and_not_left_to_its_grace(bash: BashSurface) -> None:
    for _ in range(20):
        task = bash.start("sleep 1000")
        assert state_of(bash.kill(task)).startswith("killed, signal 15 (SIGTERM)")


@pytest.mark.requirement("bash.kill-stopped")
def test_a_task_that_has_stopped_itself_can_be_killed(bash: BashSurface, marker: str) -> None:
    task = bash.start(f"echo ready; kill -STOP $$; sleep {marker}")
    bash.wait_for_output(task, b"ready")

    assert state_of(bash.kill(task)).startswith("killed, signal 15 (SIGTERM)")


@pytest.mark.requirement("bash.kill-forker")
def test_a_task_that_forks_without_end_can_be_killed(bash: BashSurface, marker: str) -> None:
    cmd = f"trap '' TERM; echo ready; while :; do sleep {marker} & sleep 0.01; done"
    task = bash.start(cmd)
    bash.wait_for_output(task, b"ready")
    eventually(lambda: len(processes_with(marker)) > 5)

    assert state_of(bash.kill(task)).startswith("killed, signal 9 (SIGKILL)")
    assert processes_with(marker) == []


@pytest.mark.requirement("bash.kill-again")
def test_killing_what_has_ended_shows_its_end(bash: BashSurface) -> None:
    task = id_of(bash.run("exit 4"))

    assert state_of(bash.kill(task)).startswith("done, exit code 4")


@pytest.mark.requirement("bash.interrupted")
def test_a_task_whose_supervisor_is_killed_is_interrupted_and_gone(bash: BashSurface, marker: str) -> None:
    task = bash.start(f"echo ready; setsid sleep {marker} & sleep {marker}")
    bash.wait_for_output(task, b"ready")

    kill_supervisor_of(bash, task)

    assert bash.end(task).startswith("interrupted")
    eventually(lambda: processes_with(marker) == [])


@pytest.mark.requirement("bash.no-daemon-signals")
def test_a_task_cannot_signal_its_daemon(bash: BashSurface) -> None:
    daemon = bash.unit.pid

    bash.run(f"kill -9 {daemon}; kill -9 -1")

    assert is_alive(daemon)
    assert daemon != os.getpid()
    assert state_of(bash.run("true")).startswith("done, exit code 0")


SET_ID = """
import ctypes, os, struct
tries = {
    "chmod": lambda: os.chmod("plain", 0o4755),
    "fchmod": lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o2755),
    "open": lambda: os.open("opened", os.O_CREAT | os.O_WRONLY, 0o4755),
    "mknod": lambda: os.mknod("made", 0o104755),
    "tmpfile": lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755),
}
open("plain", "w").close()
os.umask(0)
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "allowed")
    except OSError as exc:
        print(name, "refused", exc.errno)
how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
print("openat2", ctypes.CDLL(None).syscall(437, -100, b"again", how, 24))
os.chmod("plain", 0o755)
os.mkdir("directory", 0o700)
"""


@pytest.mark.requirement("bash.no-set-id")
def test_a_task_leaves_no_program_that_runs_as_its_owner(bash: BashSurface) -> None:
    (bash.state_dir / "set_id.py").write_text(SET_ID)

    answer = bash.run("/usr/bin/env python3 set_id.py", wait_seconds=20)

    assert state_of(answer).startswith("done, exit code 0"), answer
    assert "allowed" not in answer
    assert "openat2 -1" in answer
    found = [path.name for path in bash.state_dir.iterdir() if path.stat().st_mode & 0o6000]
    assert found == []
