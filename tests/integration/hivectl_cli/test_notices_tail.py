"""`notices tail` against a real stream."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import IO, Any

import pytest

from tests.support.hive import BIN, Hive, running_hive

WITHIN = 20.0


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as hive:
        hive.ctl("agent", "stop", "iris")
        hive.ctl("agent", "start", "iris")
        yield hive


def _what(event: dict[str, Any]) -> tuple[str, str]:
    return event["subject"], event["type"].split(".")[2]


def _next(lines: IO[str], *, but: str) -> tuple[str, str]:
    return next(what for line in lines if (what := _what(json.loads(line)))[1] != but)


def _read(hive: Hive, *args: str) -> list[tuple[str, str]]:
    done = hive.run("notices", "tail", *args, "--json")
    assert done.returncode == 0, done.stderr
    return [_what(json.loads(line)) for line in done.stdout.splitlines()]


def _tail(hive: Hive, *args: str) -> subprocess.Popen[str]:
    """A tail that runs; its first line says that it listens."""
    return subprocess.Popen(
        [BIN / "hivectl", "notices", "tail", *args, "--json", "--root", str(hive.layout.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _lines(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def test_history_is_printed_in_order_and_ends(hive: Hive) -> None:
    assert _read(hive, "--no-follow", "--agent", "iris") == [
        ("iris", "started"),
        ("iris", "stopped"),
        ("iris", "started"),
    ]
    assert ("ruth", "started") in _read(hive, "--no-follow")


def test_count_ends_the_tail(hive: Hive) -> None:
    assert _read(hive, "--from-start", "--agent", "iris", "--count", "2") == [
        ("iris", "started"),
        ("iris", "stopped"),
    ]


def test_text_names_hive_agent_and_event(hive: Hive) -> None:
    done = hive.run("notices", "tail", "--no-follow", "--agent", "iris")
    assert [line.split()[1:3] for line in done.stdout.splitlines()][:2] == [
        ["hive/iris", "started"],
        ["hive/iris", "stopped"],
    ]


def test_new_notices_come_live_also_after_nats_was_killed(hive: Hive) -> None:
    before = len(_read(hive, "--no-follow", "--agent", "iris"))
    process = _tail(hive, "--from-start", "--agent", "iris")
    try:
        lines = _lines(process)
        for _ in range(before):
            lines.readline()
        hive.ctl("agent", "kill", "iris")
        assert _what(json.loads(lines.readline())) == ("iris", "killed")
        hive.kill("nats")
        hive.ctl("agent", "start", "iris")
        # A commit in this very checkout would make it a new revision too.
        assert _next(lines, but="revision_changed") == ("iris", "started")
    finally:
        process.kill()
        process.wait(WITHIN)
        _lines(process).close()


def test_interrupt_ends_quietly(hive: Hive) -> None:
    process = subprocess.Popen(
        [BIN / "hivectl", "notices", "tail", "--from-start", "--root", str(hive.layout.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(2)
    _out, err = process.communicate(timeout=WITHIN)
    assert (process.returncode, err) == (130, "")
