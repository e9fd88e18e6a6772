"""Versions: of Python, of what is installed beside us, of SQLite, and of the claude CLI if there is one."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.spool import sqlite_has_fts5, sqlite_version
from shared.revision import DISTRIBUTION, revision

MIN_PYTHON = (3, 11)
# UPSERT and RETURNING, which the broker's statements use.
MIN_SQLITE = (3, 35, 0)
# The oldest that was seen to work, and the one that the tests run.
MIN_CLAUDE = (2, 1, 197)
TESTED_CLAUDE = (2, 1, 332)
CLAUDE_SECONDS = 10.0

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)")
_RULE = re.compile(r"\s*(==|>=|<=|<|>|~=|!=)\s*([0-9][0-9.]*)")
_SETUP = "`make setup` in the checkout, or install hyperhive anew; then `hivectl down`, `hivectl up`"


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """The interpreter, which the units run with as well."""
    detail = f"hyperhive {revision()} on {platform.python_implementation()} {_words(version)}"
    if version < MIN_PYTHON:
        return error("python", detail, f"install Python {_words(MIN_PYTHON)} or newer, then `make setup`")
    return passed("python", detail)


def check_sqlite(version: str | None = None, *, fts5: bool | None = None) -> Check:
    """The library that the broker's database and the supervisor's spool are used with."""
    word = version or sqlite_version()
    if _numbers(word) < MIN_SQLITE:
        mend = f"use a Python whose sqlite3 is {_words(MIN_SQLITE)} or newer, or PostgreSQL"
        return error("sqlite", f"SQLite {word}", mend)
    if not (sqlite_has_fts5() if fts5 is None else fts5):
        mend = "use a Python whose sqlite3 has FTS5, or PostgreSQL"
        return error("sqlite", f"SQLite {word} without FTS5, which finds messages by their words", mend)
    return passed("sqlite", f"SQLite {word}")


def check_packages(requirements: Iterable[str] | None = None) -> Check:
    """Whether what is installed is what this version of hyperhive was made for; extras may be left out."""
    name = "packages"
    try:
        rows = list(metadata.requires(DISTRIBUTION) or ()) if requirements is None else list(requirements)
    except metadata.PackageNotFoundError:
        return warning(name, f"{DISTRIBUTION} is not installed; its versions are not known", _SETUP)
    wrong, shown = [], []
    for row in rows:
        package, rules = _split(row)
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if not all(_holds(version, *rule) for rule in rules):
            wrong.append(f"{package} {version} is installed, {''.join(row.split(';')[0].split())} is needed")
        if package in {"mcp", "nats-py", "sqlalchemy"}:
            shown.append(f"{package} {version}")
    if wrong:
        return error(name, "; ".join(dict.fromkeys(wrong)), _SETUP)
    return passed(name, ", ".join([*dict.fromkeys(shown), "all as needed"]))


def check_claude(program: str | None = None) -> Check:
    """The claude CLI, which operators start; the hive runs without it. It is a native program: no node."""
    name = "claude"
    path = shutil.which(program or "claude")
    if path is None:
        mend = "install Claude Code where agents' sessions are to run; the hive itself does not need it"
        return warning(name, "there is no claude on the PATH", mend)
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLAUDE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return warning(name, f"{path} does not answer", "try `claude --version`, and install it anew")
    found = re.match(r"\s*(\d+)\.(\d+)\.(\d+)\s+\(Claude Code\)", done.stdout)
    if found is None:
        return warning(
            name, f"{path} does not answer like Claude Code", "put the right one first on the PATH"
        )
    version = tuple(map(int, found.groups()))
    detail = f"Claude Code {_words(version)}; the tests run {_words(TESTED_CLAUDE)}"
    if version < MIN_CLAUDE:
        mend = f"use {_words(MIN_CLAUDE)} or newer: `claude update`"
        return warning(name, detail, mend)
    return passed(name, detail)


def check_revision(name: str, whose: str, running: str | None) -> Check:
    """Whether a daemon runs the code that is deployed here."""
    ours = revision()
    if running is None or running == ours:
        return passed(name, running or f"{whose} does not say")
    detail = f"{whose} runs {running}, installed is {ours}"
    return warning(name, detail, "`hivectl down`, then `hivectl up`")


def _split(requirement: str) -> tuple[str, list[tuple[str, str]]]:
    """Name and rules of `mcp==2.3.0; extra == "mcp"`; markers are of no interest."""
    found = _REQUIREMENT.match(requirement)
    package, rules = (found[1], found[2]) if found else (requirement, "")
    return package.lower(), [(rule[1], rule[2]) for rule in _RULE.finditer(rules)]


def _holds(version: str, operator: str, bound: str) -> bool:
    wide = max(len(_numbers(version)), len(_numbers(bound)))
    has, limit = (_numbers(word) + (0,) * (wide - len(_numbers(word))) for word in (version, bound))
    return {
        "==": has == limit,
        "!=": has != limit,
        ">=": has >= limit,
        "<=": has <= limit,
        "<": has < limit,
        ">": has > limit,
        "~=": has >= limit and has[: bound.count(".")] == limit[: bound.count(".")],
    }[operator]


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: `2.1.0rc1` is 2.1.0."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
