"""Generated files say what the code says."""

from __future__ import annotations

import pytest

from tools.generated import GENERATED, read


@pytest.mark.parametrize("name", GENERATED)
def test_generated_file_is_what_the_code_says(name: str) -> None:
    now = read(name)

    assert now, f"{name} is missing; run: make generate"
    assert now == GENERATED[name](now), f"{name} is stale; run: make generate"
