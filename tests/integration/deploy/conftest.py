"""The wheel, built once, and for each extra an environment with its lock and the wheel, nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.unit_files import EnvironmentOf

CHECKOUT = Path(__file__).parents[3]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
BUILD_SECONDS = 120
INSTALL_SECONDS = 300
_NOT_THERE = re.compile(r"No matching distribution|NewConnectionError|ConnectTimeout|name resolution")


def run_pip(*arguments: str | Path, within: float) -> None:
    done = subprocess.run(
        [*PIP, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=within
    )
    if done.returncode == 0:
        return
    reason = (done.stdout + done.stderr)[-2000:]
    if _NOT_THERE.search(reason) and not os.environ.get("CI"):
        pytest.skip(f"no package index here: {reason[-200:]}")
    pytest.fail(f"pip {arguments[0]}: {reason}")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own distribution, as an installation gets it."""
    directory = tmp_path_factory.mktemp("wheel")
    run_pip("wheel", "--no-deps", "--no-build-isolation", "-w", directory, CHECKOUT, within=BUILD_SECONDS)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def environment_of(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> EnvironmentOf:
    """Makes the environment of an extra, once a session."""
    made: dict[str, Path] = {}

    def make(extra: str) -> Path:
        if extra not in made:
            path = tmp_path_factory.mktemp(extra)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
            into = ("--python", path / "bin" / "python", "install", "--no-deps", "--no-compile")
            lock = CHECKOUT / "requirements" / f"{extra}.txt"
            run_pip(*into, "--require-hashes", "-r", lock, within=INSTALL_SECONDS)
            run_pip(*into, wheel, within=INSTALL_SECONDS)
            made[extra] = path
        return made[extra]

    return make


@pytest.fixture
def root() -> Iterator[Path]:
    """What /var/lib/hyperhive stands for; short, as sockets lie below it."""
    path = Path(tempfile.mkdtemp(prefix="hh-"))
    yield path
    shutil.rmtree(path)
