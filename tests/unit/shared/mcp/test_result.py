"""Sizes for logs, of whatever a caller may send."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from shared.mcp.result import size_of


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("äö", 4),
        ({"ab": "c", "d": [1, None]}, 20),
        ([types.TextContent(type="text", text="abc")], 3),
        ("\ud800", 1),
        ({}, 0),
    ],
)
def test_size_is_that_of_the_texts_and_eight_for_the_rest(value: Any, size: int) -> None:
    assert size_of(value) == size


def test_depth_does_not_matter() -> None:
    value: Any = "abc"
    for _ in range(100_000):
        value = [value]

    assert size_of(value) == 3
