"""The daemon's state survives its process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from services.hyperhive_mcp.store import StateStore
from shared.errors import Unavailable
from shared.permissions import ToolGroup
from shared.wire.agents import Grants
from shared.wire.messages import StatusText

GRANTS = Grants(groups=[ToolGroup.MESSAGING], capabilities=[], allowed_recipients=["operator"], version=7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    with closing(StateStore(tmp_path / "s.sqlite")) as opened:
        yield opened


def test_grants_survive_a_restart(store: StateStore, tmp_path: Path) -> None:
    assert store.find_grants() is None
    store.save_grants(GRANTS)
    store.close()
    with closing(StateStore(tmp_path / "s.sqlite")) as second:
        assert second.find_grants() == GRANTS


def test_a_status_set_while_an_older_one_is_pushed_stays_unpushed(store: StateStore) -> None:
    older, newer = StatusText(text="a", set_at=1), StatusText(text="b", set_at=2)
    store.save_unpushed_status(older)
    store.save_unpushed_status(newer)
    store.drop_unpushed_status(older)
    assert store.find_unpushed_status() == newer
    store.drop_unpushed_status(newer)
    assert store.find_unpushed_status() is None


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unavailable, match="cannot open"):
        StateStore(path)
