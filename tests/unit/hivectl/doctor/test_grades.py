"""Where a finding begins, and where it becomes an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.hivectl.doctor.check import Severity
from services.hivectl.doctor.clock import check_difference, check_newest
from services.hivectl.doctor.flow import check_refused, check_relay, check_waiting
from services.hivectl.doctor.isolation import check_isolation
from services.hivectl.doctor.machine import check_disk, check_memory, check_open_files
from services.hivectl.doctor.processes import check_wal
from services.hivectl.doctor.versions import check_claude, check_packages, check_python, check_sqlite
from services.hivectl.sandbox_probe import Sandbox
from shared.layout import HiveLayout
from shared.wire.refusals import Refusal
from tests.unit.hivectl.doctor.stage import HIVE

INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


@pytest.mark.parametrize(
    ("used", "grade"), [(0, INFO), (84, INFO), (85, WARNING), (94, WARNING), (95, ERROR), (100, ERROR)]
)
def test_a_disk_and_its_inodes(used: int, grade: Severity) -> None:
    free = 100 - used
    # A tenth more is kept for root, and counts for nobody.
    stats = os.statvfs_result((4096, 4096, 110, free + 10, free, 100, free, free, 0, 255))
    space, inodes, mount = check_disk(Path("/hive"), stats_of=lambda _: stats)
    assert (space.severity, inodes.severity, mount.severity) == (grade, grade, INFO)


def test_a_file_system_without_a_number_of_inodes_cannot_run_out_of_them() -> None:
    stats = os.statvfs_result((4096, 4096, 100, 50, 50, 0, 0, 0, 0, 255))
    assert check_disk(Path("/hive"), stats_of=lambda _: stats)[1].ok


def test_a_root_that_is_not_there_yet_is_judged_by_its_parent(tmp_path: Path) -> None:
    assert str(tmp_path) in check_disk(tmp_path / "not" / "there")[0].detail


@pytest.mark.parametrize(("left", "grade"), [(29, ERROR), (30, WARNING), (99, WARNING), (100, INFO)])
def test_memory(tmp_path: Path, left: int, grade: Severity) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 1000 kB\nMemAvailable: {left} kB\n")
    assert check_memory(tmp_path / "meminfo").severity is grade


@pytest.mark.parametrize("text", ["", "MemTotal: 1 kB", "MemTotal: x kB\nMemAvailable: 1 kB", "nothing"])
def test_what_says_nothing_of_memory_is_a_finding(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)
    assert check_memory(tmp_path / "meminfo").severity is WARNING


@pytest.mark.parametrize(
    ("limit", "agents", "grade"),
    [("1024", 48, INFO), ("1024", 49, WARNING), ("unlimited", 5000, INFO), ("", 1, WARNING)],
)
def test_open_files(tmp_path: Path, limit: str, agents: int, grade: Severity) -> None:
    (tmp_path / "limits").write_text(f"Max open files  {limit}  4096  files\n" if limit else "")
    check = check_open_files(tmp_path / "limits", whose="the broker", agents=agents)
    assert check.severity is grade


@pytest.mark.parametrize(
    ("told", "grade", "word"),
    [
        (None, INFO, "does not say"),
        (995, INFO, "has the time"),
        (1012, INFO, "has the time"),
        (994, WARNING, "6 s behind"),
        (1013, WARNING, "6 s ahead"),
        (939, ERROR, "61 s behind"),
        (1068, ERROR, "61 s ahead"),
    ],
)
def test_a_clock_beside_ours(told: float | None, grade: Severity, word: str) -> None:
    # The answer took seven seconds, in which no clock is wrong.
    check = check_difference("clock.broker", "the broker", told, (1000, 1007))
    assert check.severity is grade
    assert word in check.detail


def test_a_clock_set_back_shows_in_the_newest_of_all_that_is_stored() -> None:
    assert check_newest("clock.stored", {"message": None, "notice": None}, 1000).ok
    assert check_newest("clock.stored", {"message": 1005, "notice": 900}, 1000).ok
    found = check_newest("clock.stored", {"message": 900, "notice": 87_400}, 1000)
    assert found.severity is WARNING
    assert "newest notice" in found.detail
    assert "86400 s ahead" in found.detail


@pytest.mark.parametrize(
    ("waiting", "oldest_at", "grade"),
    [(0, None, INFO), (100, 940, INFO), (101, 1000, WARNING), (1, 939, WARNING), (1, 2000, INFO)],
)
def test_the_outbox(waiting: int, oldest_at: int | None, grade: Severity) -> None:
    info = HIVE.model_copy(update={"notices_waiting": waiting, "notices_oldest_at": oldest_at})
    assert check_waiting(info, 1000).severity is grade


@pytest.mark.parametrize(("sync", "grade"), [(None, WARNING), (False, ERROR), (True, INFO)])
def test_what_nats_keeps(sync: bool | None, grade: Severity) -> None:
    info = HIVE.model_copy(update={"nats_connected": True, "nats_sync_always": sync})
    connected, durable = check_relay(info, is_nats_ours=False)
    assert (connected.severity, durable.severity) == (INFO, grade)


def test_only_breakers_of_the_last_hour_count() -> None:
    def refuse(code: str, last_at: int, count: int = 1) -> Refusal:
        return Refusal(
            id=1,
            sender="iris",
            recipient="fred",
            code=code,
            reason="",
            size=1,
            count=count,
            first_at=0,
            last_at=last_at,
        )

    now = 10_000
    harmless = [refuse("key_reused", now), refuse("parked", now), refuse("too_many_hops", now - 3600)]
    assert check_refused(harmless, now).ok
    found = check_refused([*harmless, refuse("too_many_hops", now, 2), refuse("inbox_full", now)], now)
    assert "2 times too_many_hops, 1 times inbox_full (iris to fred)" in found.detail


def test_the_log_of_the_database(tmp_path: Path) -> None:
    database = tmp_path / "broker.sqlite"
    assert check_wal(database).ok
    (tmp_path / "broker.sqlite-wal").write_bytes(b"x" * 10)
    assert check_wal(database, large_bytes=10).ok
    assert not check_wal(database, large_bytes=9).ok


@pytest.mark.parametrize(
    ("requirement", "is_right"),
    [
        ("anyio", True),
        ("anyio>=4,<1000", True),
        ("anyio[trio] >= 4.0 ; python_version > '3'", True),
        ("anyio>1000", False),
        ("anyio==0.1", False),
        ("anyio~=0.1", False),
        ("not-installed-anywhere==1", True),
    ],
)
def test_installed_packages(requirement: str, is_right: bool) -> None:
    check = check_packages([requirement])
    assert check.ok is is_right
    if not is_right:
        assert "anyio" in check.detail


def test_what_is_installed_here_is_what_hyperhive_needs() -> None:
    assert check_packages().ok
    assert check_python().ok
    assert check_sqlite().ok
    assert "FTS5" in check_sqlite(fts5=False).detail


@pytest.mark.parametrize(
    ("says", "grade"),
    [
        ("2.1.332 (Claude Code)", INFO),
        ("2.2.0 (Claude Code)", INFO),
        ("2.1.197 (Claude Code)", INFO),
        ("2.1.196 (Claude Code)", WARNING),
        ("claude version 3", WARNING),
        ("", WARNING),
    ],
)
def test_the_claude_cli(tmp_path: Path, says: str, grade: Severity) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    assert check_claude(str(program)).severity is grade


@pytest.mark.parametrize(
    ("owners", "grade", "named"),
    [
        ({"h": 1000}, INFO, "no agents yet"),
        ({"h": 1000, "ruth": 2001, "iris": 2002}, INFO, "a user of its own"),
        (
            {"h": 1000, "ruth": 1000, "iris": 1000},
            WARNING,
            "iris, ruth run under the hive's own",
        ),
        ({"h": 1000, "ruth": 2001, "iris": 1000}, WARNING, "iris runs under the hive's own"),
        ({"h": 1000, "ruth": 2001, "iris": 2001}, WARNING, "an account that is not theirs alone"),
        ({"h": 1000, "ruth": 0}, WARNING, "not isolated: nothing here can; ruth runs"),
        ({"h": 1000, "ruth": None}, WARNING, "not isolated: nothing here can; ruth runs"),
    ],
)
def test_isolation(tmp_path: Path, owners: dict[str, int | None], grade: Severity, named: str) -> None:
    layout = HiveLayout(tmp_path / "h")
    agents = [name for name in owners if name != "h"]
    none = Sandbox("not isolated: nothing here can; do something", exists=False)
    check = check_isolation(
        layout, agents, owner_of=lambda path: owners[path.name], find_sandbox=lambda: none
    )
    assert check.severity is grade
    assert named in check.detail


def test_the_sandbox_of_tasks_isolates_agents_that_share_an_account(tmp_path: Path) -> None:
    there = Sandbox("tasks run isolated (namespaces)", exists=True)
    check = check_isolation(
        HiveLayout(tmp_path / "h"), ["ruth"], owner_of=lambda _: 1000, find_sandbox=lambda: there
    )
    assert check.ok
    assert "tasks run isolated" in check.detail


def test_tasks_whose_sandbox_is_turned_off_are_not_isolated(tmp_path: Path) -> None:
    there = Sandbox("tasks run isolated (namespaces)", exists=True)
    check = check_isolation(
        HiveLayout(tmp_path / "h"),
        ["ruth"],
        owner_of=lambda _: 1000,
        find_sandbox=lambda: there,
        unconfined=["ruth"],
    )
    assert check.severity is WARNING
    assert "not isolated: HIVE_BASH_SANDBOX is off for the tasks of ruth" in check.detail
