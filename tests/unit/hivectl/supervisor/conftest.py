"""A spool of events on disk for tests of the supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from services.hivectl.spool import EventSpool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[EventSpool]:
    with closing(EventSpool(tmp_path / "spool.sqlite")) as opened:
        yield opened
