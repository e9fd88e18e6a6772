"""Which tests claim to prove which requirement, read from the sources: so it holds for a partial run too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent


@dataclass(frozen=True, order=True)
class Claim:
    """One test, or (without a name) all tests of a file, prove one requirement."""

    requirement: str
    path: str
    test: str | None


def list_claims() -> list[Claim]:
    """All claims of all tests, by requirement and place."""
    return sorted(
        (claim for path in TESTS.rglob("test_*.py") for claim in _read(path)),
        key=lambda claim: (claim.requirement, claim.path, claim.test or ""),
    )


def _read(path: Path) -> Iterator[Claim]:
    name = path.relative_to(TESTS.parent).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from (Claim(found, name, node.name) for found in _ids(decorator))
        elif isinstance(node, ast.Assign):
            yield from (Claim(found, name, None) for found in _ids(node.value))


def _ids(node: ast.AST) -> Iterator[str]:
    """The ids in all `requirement(...)` calls below a node."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "requirement"
        ):
            yield from (str(arg.value) for arg in call.args if isinstance(arg, ast.Constant))
