"""The set-up says what is missing, and changes nothing before it knows that it can succeed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMANDS = ("sh", "make", "dirname", "awk", "sed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `make setup` reads, without an environment."""
    copy = tmp_path / "check out"
    copy.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy2(ROOT / name, copy)
    for name in ("tools", "requirements"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH on which there is no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for command in COMMANDS:
        found = shutil.which(command)
        assert found is not None
        (folder / command).symlink_to(found)
    return folder


def make_setup(checkout: Path, **env: str) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "setup"], cwd=checkout, env=base | env, capture_output=True, text=True, check=False
    )


def test_missing_python_is_said(checkout: Path, bare_path: Path) -> None:
    done = make_setup(checkout, PATH=str(bare_path))

    assert done.returncode
    assert "Python 3.11 or newer is needed, and there is no python3 here" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_python_that_is_too_old_is_said_with_its_version(checkout: Path, bare_path: Path) -> None:
    old = bare_path / "python3"
    # Answers the probe for the version as an old one would: with failure, and with its number.
    old.write_text('#!/bin/sh\ncase "$2" in *platform*) echo 3.9.2 ;; *) exit 1 ;; esac\n')
    old.chmod(0o755)

    done = make_setup(checkout, PATH=str(bare_path))

    assert done.returncode
    assert "python3 here is 3.9.2" in done.stderr


def test_named_python_must_exist(checkout: Path) -> None:
    done = make_setup(checkout, PYTHON="python-that-is-not-there")

    assert done.returncode
    assert "PYTHON=python-that-is-not-there is not a command" in done.stderr


def test_missing_ensurepip_names_the_package_and_touches_nothing(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError\n")

    done = make_setup(checkout, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))

    assert done.returncode
    assert "apt-get install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()
