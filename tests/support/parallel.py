"""How tests are shared out among processes: hooks of pytest-xdist, which `tests/conftest.py` takes over.

One process runs a file, so what its tests share stands once. Long files go first, short ones fill the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import NodeManager, WorkerController

# Tests mostly wait, so there is a process more than cores. On two cores three take a quarter less time than
# two, and four save nothing more; with too many, what is bounded by time runs out.
MAX_WORKERS = 4
# For what a process of tests stops when the run is cut off. Its own end would come after 15 s (execnet).
END_SECONDS = 20
_LONG_FIRST = ("tests/e2e/", "tests/integration/", "tests/conformance/", "tests/")
# What the tests of these directories share takes longer to make twice than they would gain.
_TOGETHER = ("tests/integration/deploy/", "tests/e2e/hostile/")


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out file after file; some directories as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
        super()._assign_work_unit(node)


def scope_of(nodeid: str) -> str:
    """What a test is handed out with: the tests of its file, or of its directory."""
    path = nodeid.partition("::")[0]
    return next((directory for directory in _TOGETHER if path.startswith(directory)), path)


def _rank(scope: str) -> int:
    return next((rank for rank, start in enumerate(_LONG_FIRST) if scope.startswith(start)), len(_LONG_FIRST))


def count_workers(selected: Iterable[str], cores: int) -> int:
    """How many processes `-n auto` stands for: none of them without work, none at all for a single file."""
    files: set[Path] = set()
    for argument in selected:
        path = Path(argument.partition("::")[0])
        files.update(path.rglob("test_*.py") if path.is_dir() else [path])
    workers = min(cores + 1, MAX_WORKERS, len(files))
    return workers if workers > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return count_workers(config.args, len(os.sched_getaffinity(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    return WholeFiles(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    NodeManager.EXIT_TIMEOUT = END_SECONDS


def pytest_keyboard_interrupt() -> None:
    """Let a process of tests stop what it has started: execnet would interrupt that after five seconds."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        signal.signal(signal.SIGINT, lambda *_: None)
