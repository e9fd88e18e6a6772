"""What a broker does whose disk is full, read-only, damaged or taken: it says so, and loses nothing."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.access import AgentAccess, request
from tests.support.units import BIN, Units, running_units

EXIT_FAILED, EXIT_MISCONFIGURED = 1, 3
START_SECONDS = 60
# Source: Linux <linux/prctl.h> and <linux/capability.h>.
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
PAGE = 4096


@pytest.fixture
def units() -> Iterator[Units]:
    """A broker of its own, with ruth and iris, but no surfaces."""
    with running_units(HIVE_BROKER_PAIR_PER_MINUTE="0") as running:
        for name, parent in (("ruth", None), ("iris", "ruth")):
            running.enlist(name, parent=parent)
        yield running


@pytest.fixture
def ruth(units: Units) -> AgentAccess:
    return units.agents["ruth"]


@pytest.fixture
def iris(units: Units) -> AgentAccess:
    return units.agents["iris"]


def send(sender: AgentAccess, body: str) -> int | None:
    """The id of a message to iris that was stored; None when it was refused, which must be said clearly."""
    answer = sender.http("POST", "/messages", {"to": "iris", "body": body})
    if answer.is_success:
        return int(answer.json()["sent"][0]["id"])
    assert answer.status_code == 503
    assert "nothing was stored" in answer.json()["message"]
    return None


def take_all(agent: AgentAccess) -> list[int]:
    """The ids of all messages of an inbox, in order."""
    found: list[int] = []
    while rows := agent.json("POST", "/inbox/recv", {"max": 5})["messages"]:
        found += [row["id"] for row in rows]
    return found


def stop(units: Units) -> None:
    units.broker.signal(signal.SIGTERM)
    assert units.broker.wait() == 0


def start_in_vain(units: Units) -> tuple[int, str]:
    """Start a second broker, which must give up; answers its exit code and its last words.

    Also for root a file's mode counts: the capability to ignore it is dropped.
    """
    done = subprocess.run(
        [BIN / "hive-broker"],
        env={"PATH": os.environ["PATH"], **units.broker.env, "HIVE_BROKER_PORT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        preexec_fn=_obey_modes,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def _obey_modes() -> None:
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.requirement("storage.full")
def test_a_full_disk_refuses_what_it_cannot_hold_and_keeps_the_rest(
    units: Units, ruth: AgentAccess, iris: AgentAccess
) -> None:
    kept = [send(ruth, "x" * 50_000) for _ in range(5)]
    largest = max(file.stat().st_size for file in units.layout.database.parent.iterdir())
    _limit_files(units, largest + 300_000)

    tried = [send(ruth, "y" * 60_000) for _ in range(40)]

    assert None in tried
    assert tried[-1] is None
    # Reading goes on, and what cannot be noted is not handed out.
    assert iris.json("GET", "/self")["name"] == "iris"
    assert units.operator.json("GET", "/agents/iris/inbox")["pending"] == len(stored(kept + tried))
    assert iris.http("POST", "/inbox/recv", {}).status_code == 503

    _limit_files(units, resource.RLIM_INFINITY)
    kept += [*tried, send(ruth, "there is room again")]
    units.broker.restart()
    assert take_all(iris) == stored(kept)


def stored(ids: list[int | None]) -> list[int]:
    return [found for found in ids if found is not None]


def _limit_files(units: Units, size: int) -> None:
    """No file of the broker may grow beyond that; the kernel fails the write, as it does on a full disk."""
    _, most = resource.prlimit(units.broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(units.broker.pid, resource.RLIMIT_FSIZE, (size, most))


@pytest.mark.requirement("storage.read-only")
@pytest.mark.parametrize("what", ["file", "side file"])
def test_a_database_that_is_read_only_is_refused_by_name(
    units: Units, ruth: AgentAccess, iris: AgentAccess, what: str
) -> None:
    database = units.layout.database
    sent = [send(ruth, "before")]
    if what == "side file":
        units.broker.kill()
    else:
        stop(units)
    target = database.with_name("broker.sqlite-wal") if what == "side file" else database
    mode = target.stat().st_mode
    target.chmod(mode & ~0o222)
    if _may_write_all_the_same(target):
        pytest.skip("this user writes to what is read-only, and cannot give that up")

    code, words = start_in_vain(units)

    assert code == EXIT_MISCONFIGURED
    assert words.startswith(f"the database cannot be written: {target} is read-only")
    target.chmod(mode)
    units.broker.start()
    sent.append(send(ruth, "after"))
    assert take_all(iris) == stored(sent)


def _may_write_all_the_same(path: Path) -> bool:
    return not subprocess.run(["test", "-w", path], preexec_fn=_obey_modes, check=False).returncode


@pytest.mark.requirement("storage.damaged")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda good: b"this is no database, whatever its name" * 500, "no SQLite database"),
        (lambda good: good[: len(good) // 2], "damaged"),
    ],
    ids=["another file", "cut in half"],
)
def test_a_damaged_database_is_named_and_left_alone(
    units: Units, ruth: AgentAccess, iris: AgentAccess, damage: object, reason: str
) -> None:
    database = units.layout.database
    sent = [send(ruth, "x" * 50_000) for _ in range(5)]
    stop(units)
    good = database.read_bytes()
    assert callable(damage)
    database.write_bytes(damage(good))

    code, words = start_in_vain(units)

    assert code == EXIT_MISCONFIGURED
    assert words.startswith(str(database))
    assert reason in words
    assert database.read_bytes() == damage(good)
    # A backup is put back.
    for side in database.parent.glob("*-*"):
        side.unlink()
    database.write_bytes(good)
    units.broker.start()
    assert take_all(iris) == stored(sent)


@pytest.mark.requirement("storage.damaged")
def test_damage_that_shows_later_is_told_to_whoever_meets_it(units: Units, ruth: AgentAccess) -> None:
    database = units.layout.database
    stop(units)
    with closing(sqlite3.connect(database)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'agents'").fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xa5" * PAGE)
    units.broker.start()

    answer = ruth.http("GET", "/self")

    assert answer.status_code == 503
    assert answer.json()["code"] == "database_damaged"
    assert "restore a backup" in answer.json()["message"]
    assert "Traceback" not in units.broker.log_text()


@pytest.mark.requirement("storage.one-broker")
@pytest.mark.parametrize("way", ["root", "link to the root", "link to the file"])
def test_a_second_broker_on_one_database_gives_up(units: Units, ruth: AgentAccess, way: str) -> None:
    database = units.layout.database
    link = units.layout.root.with_name(f"{units.layout.root.name}-link")
    if way == "link to the root":
        link.symlink_to(units.layout.root)
        units.broker.env["HIVE_ROOT"] = str(link)
    elif way == "link to the file":
        link.symlink_to(database)
        units.broker.env["HIVE_BROKER_DATABASE_URL"] = f"sqlite:///{link}"
    try:
        code, words = start_in_vain(units)
    finally:
        link.unlink(missing_ok=True)

    assert code == EXIT_FAILED
    assert words.startswith(f"another broker runs on the database {database}")
    assert send(ruth, "the first one goes on") is not None
    assert request("GET", f"{units.broker.url}/readyz").status_code == 200


@pytest.mark.requirement("storage.full")
def test_a_start_without_room_says_so(units: Units, iris: AgentAccess) -> None:
    stop(units)
    shutil.rmtree(units.layout.database.parent)
    units.layout.database.parent.mkdir(mode=0o700)
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * PAGE, most))
    try:
        code, words = start_in_vain(units)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))

    assert code == EXIT_FAILED
    assert words.startswith(f"{units.layout.database}: ")
    assert "failed; nothing was stored. Check the disk" in words
    units.broker.start()
    assert units.operator.json("GET", "/agents") == []
