"""Fixtures of the bash surface's tests: one daemon for all that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bash import BashSurface, running_bash


@pytest.fixture(scope="module")
def bash() -> Iterator[BashSurface]:
    """A bash surface alone, with a short grace between SIGTERM and SIGKILL."""
    with running_bash(HIVE_BASH_KILL_GRACE_SECONDS="1") as running:
        yield running
