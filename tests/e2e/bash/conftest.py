"""Fixtures of the bash surface's tests: one daemon for all that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bash import BashAgent, BashSurface, running_bash, running_bash_agent


@pytest.fixture(scope="module")
def bash() -> Iterator[BashSurface]:
    """A bash surface alone, with a short grace between SIGTERM and SIGKILL."""
    with running_bash(HIVE_BASH_KILL_GRACE_SECONDS="1") as running:
        yield running


@pytest.fixture(scope="module")
def agent() -> Iterator[BashAgent]:
    """The same beside a hyperhive surface, which takes its todos."""
    with running_bash_agent(HIVE_BASH_KILL_GRACE_SECONDS="1") as running:
        yield running
