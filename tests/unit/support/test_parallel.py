"""How tests are shared out: who gets what, and how many processes there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parallel import MAX_WORKERS, count_workers, scope_of


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/unit/test_docs.py::test_links[a::b]", "tests/unit/test_docs.py"),
        ("tests/e2e/test_recv.py::test_x", "tests/e2e/test_recv.py"),
        ("tests/integration/deploy/test_extras.py::test_x", "tests/integration/deploy/"),
    ],
)
def test_a_test_goes_with_its_file_or_with_all_of_its_directory(test: str, scope: str) -> None:
    assert scope_of(test) == scope


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for number in range(MAX_WORKERS + 3):
        (tmp_path / f"test_{number}.py").touch()
    return sorted(str(path) for path in tmp_path.iterdir())


def test_many_cores_do_not_make_many_workers(files: list[str], tmp_path: Path) -> None:
    assert count_workers([str(tmp_path)], cores=64) == MAX_WORKERS


def test_no_worker_is_without_a_file(files: list[str]) -> None:
    assert count_workers(files[:2], cores=4) == 2


def test_one_file_needs_no_worker(files: list[str]) -> None:
    assert count_workers([files[0]], cores=4) == 0
    assert count_workers([f"{files[0]}::test_a", f"{files[0]}::test_b"], cores=4) == 0
