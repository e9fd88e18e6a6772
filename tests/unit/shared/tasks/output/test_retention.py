"""What a task takes, and its removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.tasks.output.retention import remove_task
from tests.unit.shared.tasks.output.feeding import Feed, counting


@pytest.mark.requirement("output.removal")
def test_all_files_of_a_task_go_and_no_others(tmp_path: Path) -> None:
    with Feed(tmp_path, 1_000_000) as feed:
        feed.write(counting(3_000_000))
        (tmp_path / "task1234.err").write_bytes(b"error")
        for other in ("task12345.out", "task123.err", "task1234.txt"):
            (tmp_path / other).touch()
        feed.finish()
        assert 900_000 < _on_disk(tmp_path, "task1234") < 1_100_000
        assert feed.spool.merge()
        assert 900_000 < _on_disk(tmp_path, "task1234") < 1_100_000
        assert remove_task(feed.directory_fd, "task1234")
        assert remove_task(feed.directory_fd, "task1234")
        assert _on_disk(tmp_path, "task1234") == 0
        (tmp_path / "task1234.out").mkdir()
        (tmp_path / "task1234.out" / "held").touch()
        assert not remove_task(feed.directory_fd, "task1234")
    assert {path.name for path in tmp_path.iterdir()} == {
        "task12345.out", "task123.err", "task1234.txt", "task1234.out",
    }  # fmt: skip


def _on_disk(directory: Path, task_id: str) -> int:
    """The bytes of all files of a task, segments too, as blocks."""
    return sum(
        path.stat().st_blocks * 512
        for name in ("out", "err")
        for path in directory.glob(f"{task_id}.{name}*")
    )
