"""The command line as a whole: options at every level, failures as text, JSON and exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest

from services.hivectl.__main__ import run
from services.hivectl.app import cli
from services.hivectl.command import HiveCommand, HiveGroup
from services.hivectl.exits import ExitCode, exit_code_of
from services.hivectl.session import Session
from shared.errors import (
    Conflict,
    Forbidden,
    HiveError,
    InvalidInput,
    LimitExceeded,
    Misconfigured,
    NotFound,
    OutcomeUnknown,
    Unauthenticated,
    Unavailable,
)
from shared.revision import own_commit, revision


@pytest.fixture(autouse=True)
def _empty_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_ROOT", str(tmp_path / "none"))


def _walk(group: HiveGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, HiveGroup):
            yield from _walk(command, (*path, name))


COMMANDS = list(_walk(cli))
IDS = [" ".join(path) for path, _ in COMMANDS]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_command_takes_root_and_json_and_has_examples(
    path: tuple[str, ...], command: click.Command
) -> None:
    assert {"root", "as_json"} <= {param.name for param in command.params}
    assert command.help
    assert isinstance(command, HiveCommand | HiveGroup)
    assert command.examples


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_examples_are_command_lines_that_parse(path: tuple[str, ...], command: click.Command) -> None:
    assert isinstance(command, HiveCommand | HiveGroup)
    for line, _meaning in command.examples:
        if not line.startswith("hivectl "):
            continue  # a pipeline in which hivectl is not first
        words = shlex.split(line.split(" | ")[0].split(" < ")[0])[1:]
        _parse(cli, words)


def _parse(command: click.Command, words: list[str]) -> None:
    ctx = command.make_context(command.name, list(words))
    if isinstance(command, click.Group) and (rest := [*ctx._protected_args, *ctx.args]):
        _name, found, remaining = command.resolve_command(ctx, rest)
        assert found is not None
        _parse(found, remaining)


def test_summaries_of_lazy_commands_need_no_import() -> None:
    heavy = ("httpx2", "nats", "rich", "fastapi", "anyio")
    script = (
        "import sys; from services.hivectl.__main__ import run; run(['--help']); run(['agent', '--help']);"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_help_documents_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for code in ExitCode:
        assert re.search(rf"^ +{code.value} ", out, re.MULTILINE), code


@pytest.mark.parametrize("args", [["--version", "--json"], ["--json", "--version"]], ids=" ".join)
def test_version_says_distribution_and_commit(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"hivectl {revision()}\n"
    assert run(args) == 0
    assert json.loads(capsys.readouterr().out) == {
        "version": metadata.version("hyperhive"),
        "commit": own_commit(),
        "revision": revision(),
    }


def test_help_is_text_also_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent", "list", "--help", "--json"]) == 0
    assert capsys.readouterr().out.startswith("Usage: hivectl agent list")


@pytest.mark.parametrize(
    "args",
    [
        ["--json", "agent", "list"],
        ["agent", "--json", "list"],
        ["agent", "list", "--json"],
        ["agent", "show", "iris", "--json"],
        ["agent", "iris", "show", "--json"],
        ["inbox", "--json"],
        ["inbox", "reply", "3", "well", "--json"],
        ["notices", "tail", "--json"],
        ["mcp-config", "iris", "--json"],
        ["token", "rotate", "iris", "--json"],
        ["send", "iris", "hello", "--json"],
        ["agent", "permissions", "iris", "--json"],
        ["agent", "add", "iris", "--json"],
    ],
    ids=" ".join,
)
def test_failure_with_json_is_one_object_on_stdout_and_a_line_on_stderr(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == ExitCode.MISCONFIGURED
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "no_hive"
    assert "hivectl up" in error["message"]
    assert captured.err == f"hivectl: {error['message']}\n"


def test_failure_without_json_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent", "list"]) == ExitCode.MISCONFIGURED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hivectl: no hive at ")


def test_root_may_stand_anywhere_and_the_last_wins(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--root", "/nowhere/one", "agent", "list", "--root", "/nowhere/two"])
    assert "/nowhere/two" in capsys.readouterr().err


def test_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agnet", "list", "--json"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert "Did you mean 'agent'?" in captured.err
    assert json.loads(captured.out)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("words", "wrong"), [(["iris", "stpo"], "stpo"), (["stpo", "iris"], "stpo"), (["../x", "stop"], "../x")]
)
def test_mistyped_verb_is_named_in_either_order(
    words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agent", *words]) == ExitCode.USAGE
    assert f"No such command '{wrong}'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", "A/b", "", "x" * 33, "operator", "\u0430gent", "-x", "a b"])
def test_what_is_no_agent_name_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent", "show", "--", name]) == ExitCode.USAGE
    assert "an agent's name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["send", "iris", "hi", "--in-reply-to"],
        ["inbox", "--before"],
        ["agent", "inbox", "iris", "--before"],
        ["inbox", "ack"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("number", ["0", "9" * 23, "x", "1.5"])
def test_what_can_be_no_messages_id_is_a_usage_error(
    words: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, number, "--json"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_body_that_is_empty_or_too_long_is_refused_before_it_travels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["send", "iris", "  "]) == ExitCode.USAGE
    assert "is empty" in capsys.readouterr().err
    assert run(["send", "iris", "x" * 65_537]) == ExitCode.USAGE
    assert "65536" in capsys.readouterr().err


def test_a_body_from_a_closed_standard_input_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["send", "iris", "-"]) == ExitCode.USAGE
    assert "is closed" in capsys.readouterr().err


def test_json_after_the_double_dash_is_a_body(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "iris", "--", "--json"]) == ExitCode.MISCONFIGURED
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [["--help"], ["agent", "list", "--json"]], ids=" ".join)
def test_output_that_finds_no_room_is_said_in_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "services.hivectl", *words, "--root", "/nowhere"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.splitlines()[-1] == "hivectl: the output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


def test_closed_output_ends_silently() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "services.hivectl", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitCode.BROKEN_PIPE, "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput, ExitCode.USAGE),
        (Unauthenticated, ExitCode.MISCONFIGURED),
        (Forbidden, ExitCode.FAILED),
        (NotFound, ExitCode.NOT_FOUND),
        (Conflict, ExitCode.CONFLICT),
        (LimitExceeded, ExitCode.FAILED),
        (Unavailable, ExitCode.UNREACHABLE),
        (OutcomeUnknown, ExitCode.FAILED),
        (Misconfigured, ExitCode.MISCONFIGURED),
        (HiveError, ExitCode.FAILED),
    ],
)
def test_each_error_has_its_exit_code(error: type[HiveError], code: ExitCode) -> None:
    assert exit_code_of(error("x")) is code


def test_a_bug_is_a_traceback_and_with_json_still_an_object(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    @click.pass_obj
    def broken(_session: Session) -> None:
        raise RuntimeError("planted secret")

    monkeypatch.setitem(cli.commands, "broken", broken)
    with pytest.raises(RuntimeError):
        run(["--json", "broken"])
    out = capsys.readouterr().out
    assert json.loads(out)["error"]["code"] == "internal"
    assert "planted" not in out


def test_file_that_cannot_be_used_is_named_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @click.command()
    def reading() -> None:
        (tmp_path / "absent").read_bytes()

    monkeypatch.setitem(cli.commands, "reading", reading)
    assert run(["--json", "reading"]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "file_failed"
    assert str(tmp_path / "absent") in captured.err
