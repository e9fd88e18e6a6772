"""The machine: Python, disk, what separates agents."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.doctor.files import has_own_user
from shared.layout import HiveLayout
from shared.revision import revision

MIN_PYTHON = (3, 11)
WARN_PERCENT = 85
ERROR_PERCENT = 95


def check_machine(root: Path) -> list[Check]:
    """Everything that needs no hive."""
    return [_check_python(), check_disk(root)]


def _check_python() -> Check:
    detail = f"hyperhive {revision()} on {platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < MIN_PYTHON:
        return error(
            "python", detail, f"install Python {'.'.join(map(str, MIN_PYTHON))} or newer, then `make setup`"
        )
    return passed("python", detail)


def check_disk(root: Path, *, warn_percent: int = WARN_PERCENT, error_percent: int = ERROR_PERCENT) -> Check:
    """How full the file system of the hive is; reckoned as df(1) does, without the blocks kept for root."""
    place = root
    while (stats := _find_stats(place)) is None:
        place = place.parent
    used = stats.f_blocks - stats.f_bfree
    usable = used + stats.f_bavail
    percent = 100 * used // usable if usable else 0
    free_gib = stats.f_bavail * stats.f_frsize / 2**30
    detail = f"{percent} % full, {free_gib:.1f} GiB free at {place}"
    mend = "free some space, or move the hive to another disk with --root"
    if percent >= error_percent:
        return error("disk", detail, mend)
    if percent >= warn_percent:
        return warning("disk", detail, mend)
    return passed("disk", detail)


def _find_stats(place: Path) -> os.statvfs_result | None:
    try:
        return os.statvfs(place)
    except OSError:
        # Not made yet, or not ours to look into: its parent lies on the same disk, as far as we can tell.
        if place == place.parent:
            raise
        return None


def check_isolation(layout: HiveLayout, agents: Iterable[str]) -> Check:
    """What separates agents: users of their own, or nothing."""
    name = "isolation"
    everyone = list(agents)
    shared = [agent for agent in everyone if not has_own_user(layout, agent)]
    if everyone and not shared:
        return passed(name, "each agent has a user of its own; what it runs itself can read its own token")
    return warning(
        name,
        f"not isolated: {', '.join(shared) or 'agents'} run under the hive's own account and can read "
        "whatever it can, also every token",
        "run the hive under an account of its own, and give it nothing that its agents may not have; "
        "or give each agent a user, as the units in deploy/systemd do",
    )
