"""The five tools as a model meets them: definitions, arguments, errors that say what is right, input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import LEGACY, MODERN
from tests.support.bash import BashSurface, id_of, state_of
from tests.support.claude import Era

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "bash_tools_list.json"
SHOWN = ("name", "description", "inputSchema")
MAX_SHOWN_BYTES = 2_600


@pytest.mark.requirement("bash.definitions")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_definitions_are_as_reviewed(bash: BashSurface, era: Era) -> None:
    listed = bash.access.list_tools(era)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(listed, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
    assert listed == json.loads(SNAPSHOT.read_text())


@pytest.mark.requirement("bash.definitions")
def test_definitions_cost_few_tokens(bash: BashSurface) -> None:
    shown = [{key: tool[key] for key in SHOWN} for tool in bash.access.list_tools()]
    size = len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode())
    assert size <= MAX_SHOWN_BYTES


WRONG = {
    "no-cmd": ("run", {}, "cmd"),
    "blank-cmd": ("run", {"cmd": " "}, "is empty"),
    "nul": ("run", {"cmd": "a\0b"}, "U+0000"),
    "long-cmd": ("run", {"cmd": ":" * 70_000}, "the limit is 65536"),
    "unknown": ("run", {"cmd": "true", "shell": "zsh"}, "shell"),
    "wait-too-long": ("run", {"cmd": "true", "wait_seconds": 31}, "wait_seconds"),
    "wait-negative": ("run", {"cmd": "true", "wait_seconds": -1}, "wait_seconds"),
    "wait-text": ("run", {"cmd": "true", "wait_seconds": "3"}, "wait_seconds"),
    "timeout-zero": ("run", {"cmd": "true", "timeout_secs": 0}, "timeout_secs"),
    "env-name": ("run", {"cmd": "true", "env": {"A B": "1"}}, "no name of a variable"),
    "env-equals": ("run", {"cmd": "true", "env": {"A=B": "1"}}, "no name of a variable"),
    "env-nul": ("run", {"cmd": "true", "env": {"A": "\0"}}, "U+0000"),
    "env-number": ("run", {"cmd": "true", "env": {"A": 1}}, "env"),
    "env-large": ("run", {"cmd": "true", "env": {"A": "x" * 200_000}}, "the limit is 131072"),
    "cwd-blank": ("run", {"cmd": "true", "cwd": ""}, "cwd must be a path"),
    "id-unknown": ("status", {"id": "nosuchtask"}, "no task 'nosuchtask'"),
    "id-path": ("status", {"id": "../../token"}, "no task"),
    "kill-unknown": ("kill", {"id": "nosuchtask"}, "no task"),
    "input-unknown": ("send_input", {"id": "nosuchtask", "text": "x"}, "no task"),
    "stream": ("status", {"id": "nosuchtask", "stream": "stdout"}, "stream"),
    "page-large": ("status", {"id": "nosuchtask", "max_bytes": 10**6}, "max_bytes"),
    "list-argument": ("list", {"all": True}, "all"),
}


@pytest.mark.requirement("bash.arguments")
@pytest.mark.parametrize(("tool", "arguments", "named"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_with_what_is_right(
    bash: BashSurface, tool: str, arguments: dict[str, Any], named: str
) -> None:
    before = bash.access.call("list").ok()
    assert named in bash.access.call(tool, **arguments).error()
    assert bash.access.call("list").ok() == before


@pytest.mark.requirement("bash.arguments")
def test_an_offset_past_the_end_and_a_bad_expression_say_so(bash: BashSurface) -> None:
    task = id_of(bash.run("echo hi"))

    assert "has 3 bytes" in bash.access.call("status", id=task, stream="out", offset=4).error()
    assert "no regular expression" in bash.access.call("status", id=task, grep="a(").error()


@pytest.mark.requirement("bash.cannot-start")
@pytest.mark.parametrize(
    ("cwd", "named"),
    [("nowhere", "does not exist"), ("file", "is no directory"), ("/proc/1/root", "cannot be entered")],
)
def test_a_working_directory_that_cannot_be_is_a_clear_failure(
    bash: BashSurface, cwd: str, named: str
) -> None:
    (bash.state_dir / "file").touch()

    state = state_of(bash.run("true", cwd=cwd))

    assert state.startswith("failed: cwd ")
    assert named in state or "outside of what tasks may use" in state


@pytest.mark.requirement("bash.surroundings")
def test_a_task_has_the_documented_environment_and_nothing_of_the_daemons(bash: BashSurface) -> None:
    answer = bash.run("env -0 | tr '\\0' '\\n' | sort", env={"MINE": "yes"})
    names = {line.partition("=")[0] for line in bash.output(id_of(answer)).decode().splitlines()}

    documented = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "PWD", "OLDPWD", "_"}
    assert names - documented - {"LC_ALL", "LC_CTYPE", "TZ", "SHLVL"} == {
        "HIVE_LABEL",
        "HIVE_STATE_DIR",
        "MINE",
    }


@pytest.mark.requirement("bash.surroundings")
def test_a_task_inherits_no_descriptor_and_has_no_terminal(bash: BashSurface) -> None:
    answer = bash.run(
        "for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink $fd); done; tty; umask; cat; pwd;"
        " (echo > /dev/tty) 2>&1"
    )

    shown = bash.output(id_of(answer)).decode()
    assert {line.split()[0] for line in shown.splitlines() if "pipe:" in line or "/dev/null" in line} <= set(
        "012"
    )
    assert "not a tty" in shown
    assert "0022" in shown
    assert str(bash.state_dir) in shown
    assert state_of(answer).startswith("done")


@pytest.mark.requirement("bash.input")
def test_input_is_written_and_ended(bash: BashSurface) -> None:
    task = bash.start("cat; echo end", stdin=True)

    sent = bash.access.call("send_input", id=task, text="one\n").ok()
    assert sent.startswith("4 bytes sent")
    bash.wait_for_output(task, b"one\n")
    bash.access.call("send_input", id=task, text="zwei ✓", eof=True).ok()

    assert bash.end(task).startswith("done, exit code 0")
    assert bash.output(task) == "one\nzwei ✓end\n".encode()


@pytest.mark.requirement("bash.input")
def test_input_that_cannot_be_sent_says_why(bash: BashSurface) -> None:
    closed = bash.start("sleep 1000")
    assert "started without `stdin`" in bash.access.call("send_input", id=closed, text="x").error()
    assert "nothing to send" in bash.access.call("send_input", id=closed).error()
    bash.kill(closed)
    assert "has ended: killed" in bash.access.call("send_input", id=closed, text="x").error()

    deaf = bash.start("sleep 1000", stdin=True)
    for _ in range(40):
        answer = bash.access.call("send_input", id=deaf, text="x" * 60_000)
        if answer.is_error:
            break
    assert "has not read what was sent before" in answer.error()
    bash.kill(deaf)


@pytest.mark.requirement("bash.input-recognised")
@pytest.mark.parametrize(
    "cmd",
    [
        "printf 'Password: '; read secret",
        "cat",
        "python3 -c 'input(\"Go on? \")'",
        "sh -c 'sh -c \"read x\"'",
    ],
    ids=["prompt", "cat", "python", "grandchild"],
)
def test_a_task_that_waits_for_input_is_recognised(bash: BashSurface, cmd: str) -> None:
    answer = bash.run(cmd, stdin=True, wait_seconds=20)
    assert "It waits for input: use send_input, or kill." in answer
    task = id_of(answer)
    assert "waits for input" in bash.access.call("list").ok()

    bash.access.call("send_input", id=task, text="yes\n", eof=True).ok()

    assert bash.end(task).startswith("done, exit code 0")


@pytest.mark.requirement("bash.alone")
def test_both_eras_run_a_command(bash: BashSurface) -> None:
    for era in (MODERN, LEGACY):
        assert "hello" in bash.access.call("run", era=era, cmd="echo hello").ok()
