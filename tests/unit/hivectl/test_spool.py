"""The spool: ordered, durable, and of use while the disk is full."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from services.hivectl.spool import EventSpool, inspect_spool
from shared.errors import HiveError, Misconfigured
from shared.wire.lifecycle import DriverEventKind, ExitStatus


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], EventSpool]]:
    """Opens the one spool of this test, as often as it likes."""
    with ExitStack() as held:
        yield lambda: held.enter_context(
            closing(EventSpool(tmp_path / "spool.sqlite", now=lambda: 1_700_000_000.9))
        )


@pytest.fixture
def spool(reopen: Callable[[], EventSpool]) -> EventSpool:
    return reopen()


def test_events_come_back_in_the_order_in_which_they_were_written_also_by_the_next_process(
    reopen: Callable[[], EventSpool],
) -> None:
    spool = reopen()
    spool.append(DriverEventKind.STARTED, 1)
    spool.append(DriverEventKind.CRASHED, 1, exit_=ExitStatus(signal=9))
    spool.append(DriverEventKind.JOB_FAILED, 2, job_id=7, error="no such port")
    spool.close()

    events = [one.event for one in reopen().list_oldest(10)]
    assert [event.kind for event in events] == ["started", "crashed", "job_failed"]
    assert events[0].at == 1_700_000_000
    assert (events[1].exit_code, events[1].exit_signal) == (None, 9)
    assert (events[2].agent_id, events[2].job_id, events[2].error) == (2, 7, "no such port")
    assert len({event.event_id for event in events}) == 3


def test_only_confirmed_events_are_forgotten(spool: EventSpool) -> None:
    for agent in range(1, 6):
        spool.append(DriverEventKind.STARTED, agent)
    spool.remove(spool.list_oldest(2))
    assert [one.event.agent_id for one in spool.list_oldest(10)] == [3, 4, 5]
    assert spool.count() == 3


def test_on_a_full_disk_events_wait_in_memory_and_are_written_when_there_is_room(spool: EventSpool) -> None:
    spool.append(DriverEventKind.STARTED, 1)
    (pages,) = spool._db.execute("PRAGMA page_count").fetchone()
    spool._db.execute(f"PRAGMA max_page_count = {pages}")
    for agent in range(2, 60):
        spool.append(DriverEventKind.STARTED, agent, error="x" * 1000)
    assert spool._unsaved
    assert [one.event.agent_id for one in spool.list_oldest(100)] == list(range(1, 60))

    spool._db.execute("PRAGMA max_page_count = 10000")
    spool.append(DriverEventKind.STOPPED, 60)
    assert not spool._unsaved
    assert [one.event.agent_id for one in spool.list_oldest(100)] == list(range(1, 61))


def test_what_was_sent_from_memory_is_forgotten_too(spool: EventSpool) -> None:
    (pages,) = spool._db.execute("PRAGMA page_count").fetchone()
    spool._db.execute(f"PRAGMA max_page_count = {pages}")
    for agent in range(1, 60):
        spool.append(DriverEventKind.STARTED, agent, error="x" * 1000)
    spool.remove(spool.list_oldest(100))
    assert spool.count() == 0


def test_a_long_error_keeps_its_end(spool: EventSpool) -> None:
    event = spool.append(DriverEventKind.JOB_FAILED, 1, error="begin" + "x" * 5000 + "end")
    assert event.error is not None
    assert len(event.error) == 2000
    assert event.error.endswith("end")


def test_the_file_is_private(spool: EventSpool, tmp_path: Path) -> None:
    spool.append(DriverEventKind.STARTED, 1)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {"0o600"}


def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "spool.sqlite").write_bytes(b"no database, " * 200)
    with pytest.raises(Misconfigured, match="move it away"):
        EventSpool(tmp_path / "spool.sqlite")


def test_a_file_that_is_damaged_inside_is_found_before_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    with closing(EventSpool(path)) as spool:
        for agent in range(1, 101):
            spool.append(DriverEventKind.STARTED, agent)
    content = bytearray(path.read_bytes())
    content[4096:4600] = b"x" * 504
    path.write_bytes(content)
    with pytest.raises(Misconfigured, match="move it away"):
        EventSpool(path)
    with pytest.raises(HiveError, match="is damaged"):
        inspect_spool(path)


def test_another_database_in_its_place_is_a_clear_error(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as other:
        other.execute("CREATE TABLE event (id INTEGER)")
    with pytest.raises(Misconfigured, match="move it away"):
        EventSpool(tmp_path / "spool.sqlite")


def test_a_damaged_event_does_not_hold_up_the_others(spool: EventSpool) -> None:
    for agent in (1, 2, 3):
        spool.append(DriverEventKind.STARTED, agent)
    spool._db.execute("UPDATE event SET content = '{' WHERE seq = 2")
    assert [one.event.agent_id for one in spool.list_oldest(100)] == [1, 3]
    spool._db.execute("UPDATE event SET content = x'00ff' WHERE seq = 1")
    assert [one.event.agent_id for one in spool.list_oldest(1)] == [3]
    assert spool.count() == 1


def test_who_looks_into_it_sees_how_many_wait_and_since_when(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    assert inspect_spool(path) == (0, None)
    times = iter((40, 41))
    with closing(EventSpool(path, now=lambda: next(times))) as spool:
        assert inspect_spool(path) == (0, None)
        for agent in (1, 2):
            spool.append(DriverEventKind.STARTED, agent)
        assert inspect_spool(path) == (2, 40)
