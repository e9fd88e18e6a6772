"""A control group as systemd hands one to a unit with `Delegate=yes`, made by the test itself, as root."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import eventually


@contextmanager
def delegated_group() -> Iterator[Path]:
    """The directory of a new group; what is still in it at the end of the block is killed.

    Skips the test where this user can make none.
    """
    mounts = map(str.split, Path("/proc/mounts").read_text().splitlines())
    mounted = next((path for _, path, kind, *_ in mounts if kind == "cgroup2"), None)
    if mounted is None:
        pytest.skip("no cgroup2 file system is mounted")
    group = Path(mounted) / f"hyperhive-test-{secrets.token_hex(4)}"
    try:
        group.mkdir()
    except OSError as exc:
        pytest.skip(f"no control group can be made in {mounted}: {exc.strerror}")
    try:
        try:
            os.setxattr(group, "user.delegate", b"1")
        except OSError as exc:
            pytest.skip(f"control groups cannot be marked as delegated: {exc.strerror}")
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        eventually(lambda: "populated 0" in (group / "cgroup.events").read_text(), what=f"{group} is empty")
        for directory, _, _ in os.walk(group, topdown=False):
            Path(directory).rmdir()
