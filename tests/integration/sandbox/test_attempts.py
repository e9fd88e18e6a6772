"""From inside: everything in the table, in each kind of sandbox, as root and as an ordinary user."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping

import pytest

from shared.sandbox import Kind
from tests.integration.sandbox.conftest import Place, build_place
from tests.integration.sandbox.expected import HIVE, PROCESSES, PROTECTED, SYSTEM, WORK

# Not tried outside: they would do harm there, or are refused to everybody.
NOT_OUTSIDE = {
    "bind-over-own-socket",
    "read-through-init-root",
    "use-keys",
    "type-into-terminal",
    "find-foreign-descriptors",
}


@pytest.fixture(scope="module")
def peopled(user: str) -> Iterator[Place]:
    """A place with somebody outside."""
    place = build_place(user)
    program = str(place.base / "library/outside.py")
    with subprocess.Popen(
        [place.python, program, json.dumps(place.facts)],
        **place.options({"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}),
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        place.facts |= json.loads(process.stdout.readline())
        yield place
        process.stdin.close()
        process.wait(10)
    shutil.rmtree(place.base)


def attempts(place: Place, *names: str) -> list[str]:
    return [place.python, "-m", "tests.integration.sandbox.inside", json.dumps(place.facts), *names]


@pytest.fixture(scope="module")
def answers(peopled: Place, kind: Kind) -> dict[str, str]:
    peopled.facts["kind"] = kind
    done = peopled.run(*peopled.command(kind, *attempts(peopled)))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def differences(
    table: Mapping[str, tuple[bool, bool | None]], answers: dict[str, str], kind: Kind
) -> dict[str, str]:
    column = 0 if kind is Kind.NAMESPACES else 1
    wrong = {}
    for name, expected in table.items():
        if expected[column] is not None and (answers[name] == "yes") != expected[column]:
            wrong[name] = answers[name]
    return wrong


@pytest.mark.requirement("sandbox.hive")
def test_the_rest_of_the_hive_is_out_of_reach(answers: dict[str, str], kind: Kind) -> None:
    assert differences(HIVE, answers, kind) == {}


@pytest.mark.requirement("sandbox.protected", "sandbox.swapped")
def test_what_is_protected_is_hidden_in_added_directories_too(answers: dict[str, str], kind: Kind) -> None:
    assert differences(PROTECTED, answers, kind) == {}


@pytest.mark.requirement("sandbox.processes")
def test_other_processes_are_out_of_reach(answers: dict[str, str], kind: Kind) -> None:
    assert differences(PROCESSES, answers, kind) == {}


@pytest.mark.requirement("sandbox.system")
def test_the_system_cannot_be_changed(answers: dict[str, str], kind: Kind) -> None:
    assert differences(SYSTEM, answers, kind) == {}


@pytest.mark.requirement("sandbox.processes")
def test_keys_and_the_terminal_are_refused_by_the_filter(answers: dict[str, str]) -> None:
    assert {answers[name].split(":")[1].strip() for name in ("use-keys", "type-into-terminal")} == {
        "PermissionError"
    }


@pytest.mark.requirement("sandbox.work")
def test_work_can_be_done(answers: dict[str, str], kind: Kind) -> None:
    table = {name: row for name, row in WORK.items() if name != "run-git" or shutil.which("git")}
    assert differences(table, answers, kind) == {}


def test_every_attempt_is_in_the_table(answers: dict[str, str]) -> None:
    assert answers.keys() == (HIVE | PROTECTED | PROCESSES | SYSTEM | WORK).keys()


def test_outside_the_same_attempts_succeed(peopled: Place) -> None:
    names = (HIVE | PROTECTED | PROCESSES).keys() - NOT_OUTSIDE
    peopled.facts["kind"] = Kind.NONE

    done = peopled.run(*attempts(peopled, *names))

    refused = {name: answer for name, answer in json.loads(done.stdout).items() if answer != "yes"}
    assert refused == {}, "these prove nothing by being refused inside"
