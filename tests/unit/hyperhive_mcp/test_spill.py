"""The directory of long texts is the agent's: what is found in it is taken for no more than it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.hyperhive_mcp.spill import SpillDirectory
from shared.errors import HiveError


def test_the_oldest_texts_are_found_by_their_names_alone(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path)
    assert spill.list_ids(limit=10) == []
    for number in (30, 4, 100):
        spill.write(number, "long")
    for name in ("5", "05.txt", "-1.txt", "7.txt.bak", f"{2**63}.txt", "9" * 30 + ".txt", "x.txt"):
        (tmp_path / "inbox" / name).write_text("the agent's own")
    (tmp_path / "inbox" / "6.txt").symlink_to("/etc/passwd")
    assert spill.list_ids(limit=10) == [4, 6, 30, 100]
    assert spill.list_ids(limit=2) == [4, 6]
    spill.remove([6, 30])
    assert spill.list_ids(limit=10) == [4, 100]
    assert Path("/etc/passwd").exists()


def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.txt").write_text("not ours")
    state = tmp_path / "state"
    state.mkdir()
    (state / "inbox").symlink_to(elsewhere)
    with pytest.raises(HiveError):
        SpillDirectory(state).list_ids(limit=10)
