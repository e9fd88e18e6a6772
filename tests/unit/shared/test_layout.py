"""Where a hive lies when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.layout import HiveLayout, default_root


@pytest.mark.parametrize(
    ("root", "state", "expected"),
    [
        ("/srv/hive", "/state", "/srv/hive"),
        ("", "/state", "/state/hyperhive"),
        (None, None, "/home/u/.local/state/hyperhive"),
        (None, "", "/home/u/.local/state/hyperhive"),
        (None, "relative", "/home/u/.local/state/hyperhive"),
    ],
)
def test_the_root_is_hive_root_else_in_the_state_directory(
    root: str | None, state: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    for name, value in (("HIVE_ROOT", root), ("XDG_STATE_HOME", state)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert default_root() == Path(expected)


def test_a_path_in_the_root_or_around_it_overlaps_also_by_a_link(tmp_path: Path) -> None:
    root = tmp_path / "hives" / "one"
    (root / "agents").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root / "agents")
    layout = HiveLayout(root)
    for inside in (root, root / "agents" / "iris", tmp_path / "link", root / "not" / "there"):
        assert layout.find_overlap(str(inside)) == "lies in"
    for around in ("/", tmp_path, root.parent):
        assert layout.find_overlap(str(around)) == "holds"
    for beside in (tmp_path / "hives" / "one-more", tmp_path / "hives" / "on", "/usr"):
        assert layout.find_overlap(str(beside)) is None
