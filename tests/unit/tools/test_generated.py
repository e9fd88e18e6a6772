"""Generated files say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generated import GENERATED

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_file_is_what_the_code_says(name: str) -> None:
    path = ROOT / name

    assert path.exists(), f"{name} is missing; run: make generate"
    assert path.read_text(encoding="utf-8") == GENERATED[name](), f"{name} is stale; run: make generate"
