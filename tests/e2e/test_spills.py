"""Whole texts of long messages leave the state directory when their message is done with, by whomever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.access import AgentAccess
from tests.support.prose import ids_of
from tests.support.units import Units
from tests.support.waiting import eventually

removed = pytest.mark.requirement("recv.spill-removed")

LONG = "x" * 45_000


def receive_long(units: Units, iris: AgentAccess) -> tuple[int, Path]:
    """Have iris take a long message; answers its id and the file of its text."""
    number = units.operator.send("iris", LONG)
    assert ids_of(iris.call("recv").ok()) == [number]
    path = iris.state_dir / "inbox" / f"{number}.txt"
    assert path.read_text() == LONG
    return number, path


def ack_as_operator(units: Units, number: int) -> None:
    done = units.operator.json("POST", "/agents/iris/inbox/ack", {"ids": [number]})
    assert done["acked_ids"] == [number]


@removed
def test_what_the_operator_acked_is_removed_with_the_next_ack(units: Units, iris: AgentAccess) -> None:
    first, path = receive_long(units, iris)
    second, kept = receive_long(units, iris)
    ack_as_operator(units, first)
    iris.call("ack_until", up_to=first).ok()
    assert (path.exists(), kept.exists()) == (False, True)
    ack_as_operator(units, second)


@removed
def test_what_the_operator_acked_is_removed_before_another_long_text_comes(
    units: Units, iris: AgentAccess
) -> None:
    first, path = receive_long(units, iris)
    ack_as_operator(units, first)
    second, kept = receive_long(units, iris)
    assert (path.exists(), kept.exists()) == (False, True)
    ack_as_operator(units, second)


@removed
def test_a_start_removes_what_was_acked_meanwhile_and_nothing_else(units: Units, iris: AgentAccess) -> None:
    acked, path = receive_long(units, iris)
    _, open_text = receive_long(units, iris)
    others = [iris.state_dir / "inbox" / name for name in ("999999999.txt", "notes.txt", "00.txt")]
    for other in others:
        other.write_text("the agent's own")
    units.surfaces["iris"].kill()
    ack_as_operator(units, acked)
    units.surfaces["iris"].start()
    eventually(lambda: not path.exists(), what="the text of the acked message is gone")
    assert [file.exists() for file in (open_text, *others)] == [True] * 4


@removed
def test_a_directory_that_is_a_link_is_left_alone(units: Units, iris: AgentAccess, tmp_path: Path) -> None:
    number = units.operator.send("iris", "short")
    inbox = iris.state_dir / "inbox"
    inbox.mkdir(exist_ok=True)
    inbox.rename(iris.state_dir / "moved")
    bait = tmp_path / f"{number}.txt"
    bait.write_text("not the daemon's to remove")
    inbox.symlink_to(tmp_path)
    try:
        ack_as_operator(units, number)
        later = units.operator.send("iris", "another")
        iris.call("ack_until", up_to=later).ok()
        assert bait.exists()
    finally:
        inbox.unlink()


@removed
def test_an_ack_counts_where_the_file_cannot_be_removed(units: Units, iris: AgentAccess) -> None:
    number, path = receive_long(units, iris)
    path.unlink()
    path.mkdir()
    answer = iris.call("ack_until", up_to=number).ok()
    assert answer.startswith(f"Acked 1 message up to #{number}.")
    assert str(path) in answer
    path.rmdir()


def put_directory(inbox: Path, number: int) -> Callable[[], None]:
    path = inbox / f"{number}.txt"
    path.mkdir(parents=True)
    return path.rmdir


def put_file(inbox: Path, _number: int) -> Callable[[], None]:
    moved = inbox.with_name("moved-away")
    if inbox.exists():
        inbox.rename(moved)
    inbox.write_text("in the way")

    def mend() -> None:
        inbox.unlink()
        if moved.exists():
            moved.rename(inbox)

    return mend


def put_link(inbox: Path, number: int) -> Callable[[], None]:
    mend = put_file(inbox, number)
    inbox.unlink()
    inbox.symlink_to(inbox.parent)
    return mend


@pytest.mark.requirement("recv.spill-failed")
@pytest.mark.parametrize("put", [put_directory, put_file, put_link])
def test_a_long_text_that_cannot_be_written_is_shown_cut_and_holds_up_nothing(
    units: Units, iris: AgentAccess, put: Callable[[Path, int], Callable[[], None]]
) -> None:
    number = units.operator.send("iris", LONG)
    behind = units.operator.send("iris", "after it")
    path = iris.state_dir / "inbox" / f"{number}.txt"
    mend = put(path.parent, number)
    try:
        answer = iris.call("recv").ok()
        assert ids_of(answer) == [number]
        assert len(answer.encode()) <= 40_000
        assert f"of {len(LONG)} bytes; the whole text could not be written to {path}: " in answer
        assert "or ask operator for the rest" in answer
        assert answer.endswith("1 more pending")
        assert "spill_not_written" in units.surfaces["iris"].log_text()
    finally:
        mend()
    assert ids_of(iris.call("recv").ok()) == [behind]
    assert path.read_text() == LONG
    iris.call("ack_until", up_to=behind).ok()
    assert not path.exists()
