"""Which commit is checked out, in every layout git uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from shared.revision import find_commit, revision

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

ENV = {
    **os.environ,
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.invalid",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def git(directory: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=directory, env=ENV, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q", "-b", "feature/one")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git cannot be called: what is found is read from files."""
    monkeypatch.setenv("PATH", "")


def test_a_loose_ref_is_read(checkout: Path, no_git: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_commit(checkout)

    monkeypatch.undo()
    assert found == git(checkout, "rev-parse", "HEAD")


def test_a_packed_ref_is_read(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "pack-refs", "--all")
    wanted = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")

    assert find_commit(checkout) == wanted


def test_a_detached_head_is_read(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "checkout", "-q", "--detach")
    wanted = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")

    assert find_commit(checkout) == wanted


def test_a_worktree_is_followed_to_its_repository(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "worktree", "add", "-q", "../other", "-b", "other")
    git(checkout.parent / "other", "commit", "-q", "--allow-empty", "-m", "second")
    wanted = git(checkout.parent / "other", "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")

    assert find_commit(checkout.parent / "other") == wanted


def test_a_layout_that_is_not_known_is_left_to_git(checkout: Path) -> None:
    wanted = git(checkout, "rev-parse", "HEAD")
    head = checkout / ".git" / "refs" / "heads" / "feature" / "one"
    # A symbolic ref to a symbolic ref: valid, and not worth following by hand.
    git(checkout, "symbolic-ref", "refs/heads/alias", "refs/heads/feature/one")
    git(checkout, "symbolic-ref", "HEAD", "refs/heads/alias")

    assert head.exists()
    assert find_commit(checkout) == wanted


@pytest.mark.parametrize("content", [None, "", "ref: refs/heads/none", "garbage"])
def test_no_commit_is_none_and_no_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "HEAD").write_text(content)

    assert find_commit(tmp_path) is None


def test_an_unborn_branch_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")

    assert find_commit(tmp_path) is None


def test_revision_is_the_version_with_the_commit_of_a_checkout() -> None:
    version = metadata.version("hyperhive")

    assert re.fullmatch(re.escape(version) + r"([+.]g[0-9a-f]{12})?", revision())
    assert revision() is revision()
