"""Every requirement has a test. Read from the sources, so that it holds for a partial run as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parents[1]


def claimed(path: Path) -> Iterator[str]:
    """The ids in all `requirement(...)` calls of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "requirement"
        ):
            yield from (str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))


def test_every_requirement_has_a_test_and_every_claim_a_requirement() -> None:
    ids = {name for path in TESTS.rglob("test_*.py") for name in claimed(path)}
    assert sorted(REQUIREMENTS.keys() - ids) == [], "requirements without a test"
    assert sorted(ids - REQUIREMENTS.keys()) == [], "tests that name no requirement"


def test_requirements_read_as_one_sentence_each() -> None:
    odd = [name for name, row in REQUIREMENTS.items() if not row.source or row.text.endswith(".")]
    assert odd == []
