"""What every test gets: one event loop flavour, and markers that name requirements which exist."""

from __future__ import annotations

import pytest

from tests.requirements import REQUIREMENTS
from tests.support.parallel import (
    pytest_keyboard_interrupt,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
    pytest_xdist_setupnodes,
)

__all__ = [
    "pytest_keyboard_interrupt",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
    "pytest_xdist_setupnodes",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=["both", "sqlite", "postgresql"],
        default="both",
        help="which databases the broker's tests run on",
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("requirement"):
            unknown = [name for name in marker.args if name not in REQUIREMENTS]
            if unknown or not marker.args:
                raise pytest.UsageError(f"{item.nodeid} names requirements that do not exist: {unknown}")
