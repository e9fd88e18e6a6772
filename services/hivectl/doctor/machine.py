"""The machine: disk, memory, open files. Thresholds are contract (docs/hivectl.md)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed, warning

WARN_PERCENT = 85
ERROR_PERCENT = 95
# Of all memory, what may be left.
LITTLE_MEMORY_PERCENT = 10
NO_MEMORY_PERCENT = 3
# A broker's files and connections: its own, and those of each agent's daemons and sessions.
OWN_FILES = 256
FILES_AN_AGENT = 16

_MEMINFO = Path("/proc/meminfo")
_LIMIT = "Max open files"
_SPACE = "free some space, or move the hive to another disk with --root"

Stats = Callable[[Path], os.statvfs_result]


def check_disk(root: Path, *, stats_of: Stats = os.statvfs) -> list[Check]:
    """The hive's file system: space, reckoned as df(1) does, without what is kept for root; inodes; mount."""
    place = root
    while (stats := _find_stats(place, stats_of)) is None:
        place = place.parent
    used = stats.f_blocks - stats.f_bfree
    usable = used + stats.f_bavail
    percent = 100 * used // usable if usable else 0
    free_gib = stats.f_bavail * stats.f_frsize / 2**30
    space = _grade("disk", percent, f"{percent} % full, {free_gib:.1f} GiB free at {place}", _SPACE)
    return [space, _check_inodes(stats, place), _check_mount(stats, place)]


def _check_inodes(stats: os.statvfs_result, place: Path) -> Check:
    name = "disk.inodes"
    if not stats.f_files:
        return passed(name, f"without a fixed number at {place}")
    percent = 100 * (stats.f_files - stats.f_favail) // stats.f_files
    detail = f"{percent} % of the inodes used at {place}"
    return _grade(name, percent, detail, "remove files that nobody needs: small ones count as well")


def _check_mount(stats: os.statvfs_result, place: Path) -> Check:
    if stats.f_flag & os.ST_RDONLY:
        mend = f"mount -o remount,rw {place}; a disk that failed is mounted so: see dmesg(1)"
        return error("disk.writable", f"{place} is mounted read-only", mend)
    return passed("disk.writable", f"{place} may be written")


def _grade(name: str, percent: int, detail: str, mend: str) -> Check:
    if percent >= ERROR_PERCENT:
        return error(name, detail, mend)
    return warning(name, detail, mend) if percent >= WARN_PERCENT else passed(name, detail)


def _find_stats(place: Path, stats_of: Stats) -> os.statvfs_result | None:
    try:
        return stats_of(place)
    except OSError:
        # Not made yet, or not ours to look into: its parent lies on the same disk, as far as we can tell.
        if place == place.parent:
            raise
        return None


def check_memory(meminfo: Path = _MEMINFO) -> Check:
    """What is left for programs that start now (MemAvailable in proc_meminfo(5))."""
    name = "memory"
    try:
        rows = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        total, left = (int(rows[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
    except (OSError, ValueError, KeyError, IndexError):
        return warning(name, f"{meminfo} does not say how much there is", "look with free(1)")
    percent = 100 * left // total if total else 0
    detail = f"{left / 2**20:.1f} of {total / 2**20:.1f} GiB available"
    mend = "stop agents that are not needed (`hivectl agent stop NAME`), or other programs: see top(1)"
    if percent < NO_MEMORY_PERCENT:
        return error(name, detail, mend)
    return warning(name, detail, mend) if percent < LITTLE_MEMORY_PERCENT else passed(name, detail)


def check_open_files(limits: Path, *, whose: str, agents: int) -> Check:
    """How many files a process may open (proc_pid_limits(5)), for the broker of so many agents."""
    name = "open-files"
    try:
        lines = limits.read_text(encoding="ascii").splitlines()
        word = next(line for line in lines if line.startswith(_LIMIT)).removeprefix(_LIMIT).split()[0]
        limit = None if word == "unlimited" else int(word)
    except (OSError, ValueError, StopIteration, IndexError):
        return warning(name, f"{limits} does not say how many files {whose} may open", "run doctor there")
    wanted = OWN_FILES + FILES_AN_AGENT * agents
    detail = f"{whose} may open {'any number of' if limit is None else limit} files"
    if limit is not None and limit < wanted:
        mend = "raise the hard limit (`ulimit -Hn`, or LimitNOFILE= of the unit), then start the hive anew"
        return warning(name, f"{detail}; {agents} agents may need {wanted}", mend)
    return passed(name, detail)
