"""Which code runs: the distribution's version and, from a git checkout, the commit."""

from __future__ import annotations

import functools
import re
import subprocess
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "hyperhive"
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
_GIT_SECONDS = 5.0


@functools.cache
def revision() -> str:
    """E.g. `0.1.0`, or `0.1.0+g0123456789ab` from a checkout. Found once: it says what was started."""
    version, commit = distribution_version(), own_commit()
    if commit is None:
        return version
    return f"{version}{'.' if '+' in version else '+'}g{commit[:12]}"


def distribution_version() -> str:
    """The installed distribution's version; `0.0.0` where none is installed."""
    try:
        found = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0.0.0"
    # Not `found.version`, for which a parser of mail is taken: half a megabyte in each process.
    version = _VERSION.search(found.read_text("METADATA") or "")
    return version[1] if version else found.version


def own_commit() -> str | None:
    """The commit of the checkout that this code lies in; None when it is no checkout."""
    return find_commit(Path(__file__).resolve().parent.parent)


def find_commit(root: Path) -> str | None:
    """The commit checked out at `root`; None when it is no checkout. Reads files, git is a last resort."""
    if not (root / ".git").exists():
        return None
    try:
        return _read_commit(root / ".git")
    except (OSError, UnicodeDecodeError):
        return _ask_git(root)


def _read_commit(dot_git: Path) -> str | None:
    """Follow HEAD through loose and packed refs. Source: gitrepository-layout(5).

    Raises:
        OSError: when the layout is another (reftable, for one).
    """
    git_dir = dot_git
    if dot_git.is_file():  # a worktree or submodule: "gitdir: PATH"
        git_dir = (dot_git.parent / dot_git.read_text().removeprefix("gitdir:").strip()).resolve()
    common = git_dir
    if (git_dir / "commondir").is_file():
        common = (git_dir / (git_dir / "commondir").read_text().strip()).resolve()
    head = (git_dir / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return _checked(head)
    ref = head.removeprefix("ref:").strip()
    for directory in (git_dir, common):
        if (directory / ref).is_file():
            return _checked((directory / ref).read_text().strip())
    for line in (common / "packed-refs").read_text().splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return _checked(commit)
    raise FileNotFoundError(ref)


def _checked(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise OSError("not a commit")
    return commit


def _ask_git(root: Path) -> str | None:
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    commit = done.stdout.strip()
    return commit if _COMMIT.fullmatch(commit) else None
