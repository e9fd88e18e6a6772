"""Fixtures of the end-to-end tests: a hive of bare processes, a real hive, a scripted model, the real CLI."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from tests.support.access import AgentAccess
from tests.support.hive import Hive, running_hive
from tests.support.install_claude import find_claude
from tests.support.messages_api import ScriptedModel
from tests.support.units import Units, running_units


@pytest.fixture(scope="session")
def units() -> Iterator[Units]:
    """Broker, and surfaces of ruth (root), iris and milo; limits on chatter are out of the way.

    One for all tests that leave it as they found it; `ruth`, `iris` and `milo` come with empty inboxes.
    """
    limits = {"HIVE_BROKER_MAX_HOPS": "1000", "HIVE_BROKER_PAIR_PER_MINUTE": "10000"}
    with running_units("ruth", "iris", "milo", **limits) as running:
        yield running


@pytest.fixture(scope="module")
def hive() -> Iterator[Hive]:
    """A real hive with ruth (root) and iris."""
    with running_hive("--agent", "ruth", "--agent", "iris") as running:
        yield running


@pytest.fixture
def ruth(units: Units) -> AgentAccess:
    return _fresh(units, "ruth")


@pytest.fixture
def iris(units: Units) -> AgentAccess:
    return _fresh(units, "iris")


@pytest.fixture
def milo(units: Units) -> AgentAccess:
    return _fresh(units, "milo")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture(scope="session")
def claude_cli() -> None:
    """The real CLI is there; else tests that ask for it fail in CI and are skipped elsewhere."""
    try:
        find_claude()
    except FileNotFoundError as exc:
        if os.environ.get("CI"):
            pytest.fail(str(exc))
        pytest.skip(str(exc))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the ends of its hive's logs."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if callable(tails := getattr(value, "tails", None)):
                report.sections.append(("logs of the hive", tails()))
    return report


def _fresh(units: Units, name: str) -> AgentAccess:
    units.revive()
    agent = units.agents[name]
    agent.drain()
    return agent
