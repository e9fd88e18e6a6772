"""One surface for all attacks, and a normal call after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.hostile.surface import Surface, surface_under_attack


@pytest.fixture(scope="package")
def surface() -> Iterator[Surface]:
    with surface_under_attack() as attacked:
        yield attacked


@pytest.fixture(autouse=True)
def _serves_after_each(surface: Surface) -> Iterator[None]:
    yield
    surface.check_serving()
