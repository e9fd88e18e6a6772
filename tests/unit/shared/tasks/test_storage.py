"""How long results stay, and whose go first when room is needed: a real registry, real files, our clock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.tasks.model import End, TaskState, build_end
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.registry import TaskRegistry
from shared.tasks.request import TaskLimits
from shared.tasks.storage import EXPIRED, LEAST_BYTES, MADE_ROOM, TaskStorage

DAY = 86_400
MIB = 1 << 20
LIMITS = TaskLimits(output_bytes=4 * MIB, quota_bytes=16 * MIB, retention_seconds=7 * DAY)


class Shelf:
    """A storage with its registry, and ended tasks put into it."""

    def __init__(self, directory: Path) -> None:
        self.now = 1_000 * DAY
        self.state_dir = directory / "state"
        self.state_dir.mkdir()
        self.registry = TaskRegistry(directory / "tasks.sqlite")
        self.storage = TaskStorage(
            self.state_dir,
            "harness/bash-tasks",
            registry=self.registry,
            limits=LIMITS,
            clock=lambda: self.now,
        )

    def put(self, task_id: str, *, mib: int = 1, days_ago: int = 0, is_read: bool) -> None:
        """A task that wrote so much, and ended so long ago."""
        with self.storage.open_directory():
            self.storage.directory.joinpath(f"{task_id}.out").write_bytes(b"x" * (mib * MIB))
        self.registry.add(task_id, "x", request="{}", is_pending=False, boot="", now=self.now)
        end = _end(mib * MIB)
        end["ended_at"] = self.now - days_ago * DAY
        self.registry.finish(task_id, end, kept_bytes=self.storage.settle(task_id, end))
        if is_read:
            self.registry.mark_shown(task_id)

    def why_swept(self, task_id: str) -> str | None:
        row = self.registry.find(task_id)
        assert row is not None
        exists = (self.storage.directory / f"{task_id}.out").exists()
        assert exists is (row.swept is None)
        return row.swept


def _end(written: int) -> End:
    end = build_end(TaskState.DONE, None, started_at=None)
    end["streams"] = {"out": StreamEnd(written, written).to_record(), "err": StreamEnd(0, 0).to_record()}
    return end


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    yield made
    made.registry.close()


@pytest.mark.requirement("bash.retention")
def test_a_read_result_goes_after_its_days_and_an_unread_one_much_later(shelf: Shelf) -> None:
    shelf.put("fresh", days_ago=6, is_read=True)
    shelf.put("read", days_ago=8, is_read=True)
    shelf.put("unread", days_ago=27, is_read=False)
    shelf.put("forgotten", days_ago=29, is_read=False)

    shelf.storage.sweep()

    assert [shelf.why_swept(name) for name in ("fresh", "read", "unread", "forgotten")] == [
        None,
        EXPIRED,
        None,
        EXPIRED,
    ]


@pytest.mark.requirement("bash.quota")
async def test_for_a_new_task_the_oldest_read_results_go_and_unread_ones_stay(shelf: Shelf) -> None:
    for number in range(4):
        shelf.put(f"unread{number}", mib=1, is_read=False)
    for number in range(4):
        shelf.put(f"read{number}", mib=3, is_read=True)

    granted = await shelf.storage.make_room("new")

    assert granted == 2 * MIB + MIB // 4
    assert shelf.why_swept("read0") == MADE_ROOM
    assert [shelf.why_swept(f"read{number}") for number in (1, 2, 3)] == [MADE_ROOM, MADE_ROOM, None]
    assert [shelf.why_swept(f"unread{number}") for number in range(4)] == [None] * 4


@pytest.mark.requirement("bash.quota")
async def test_what_is_granted_never_exceeds_the_quota_by_more_than_the_least(shelf: Shelf) -> None:
    granted = [await shelf.storage.make_room(f"task{number}") for number in range(64)]

    assert granted[0] == 4 * MIB
    assert min(granted) >= LEAST_BYTES
    assert sum(granted) <= LIMITS.quota_bytes + 64 * LEAST_BYTES


@pytest.mark.requirement("bash.output-place")
@pytest.mark.parametrize("what", ["link", "file", "fifo"])
def test_something_else_in_the_place_of_the_directory_is_moved_aside_and_never_followed(
    shelf: Shelf, tmp_path: Path, what: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = shelf.state_dir / "harness"
    if what == "link":
        place.symlink_to(elsewhere)
    elif what == "file":
        place.touch()
    else:
        os.mkfifo(place)

    with shelf.storage.open_directory() as directory:
        os.close(os.open("made", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=directory))

    assert (shelf.state_dir / "harness" / "bash-tasks" / "made").exists()
    assert list(elsewhere.iterdir()) == []
    assert len(list(shelf.state_dir.glob("harness.moved-*"))) == 1
