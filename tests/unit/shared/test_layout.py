"""Where a hive lies when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.layout import default_root


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
