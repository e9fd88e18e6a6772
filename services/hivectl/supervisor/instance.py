"""One supervisor a root: `run/supervisor.lock`, held for its life, says which process it is.

The lock is the truth and the content only a hint: it is read by `down` and by a repeated `up`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import Conflict, Misconfigured
from shared.layout import HiveLayout

ALREADY_RUNNING = "already_running"


@dataclass(frozen=True)
class Instance:
    """The supervisor that runs.

    Attributes:
        settled: whether it has written the hive's files.
        nats_url: of a NATS server that is not its own.
    """

    pid: int
    started_at: int
    stopping: bool = False
    settled: bool = False
    nats_url: str | None = None


def lock_path(layout: HiveLayout) -> Path:
    """Where the lock is."""
    return layout.run_dir / "supervisor.lock"


class InstanceLock:
    """The lock, while it is ours. Ends with the process at the latest; children do not inherit it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def describe(self, content: Mapping[str, Any]) -> None:
        """Write who holds it."""
        data = json.dumps(content).encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)

    def release(self) -> None:
        """Let the next one in."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def acquire(layout: HiveLayout) -> InstanceLock:
    """Become the supervisor of this root.

    Raises:
        Conflict: when there is one already.
    """
    fd = _open(layout, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(fd)
        raise Conflict(f"a supervisor of {layout.root} runs already", code=ALREADY_RUNNING) from exc
    return InstanceLock(fd)


def is_running(layout: HiveLayout) -> bool:
    """Whether somebody holds the lock.

    Raises:
        Misconfigured: when the hive is another user's.
    """
    try:
        fd = _open(layout, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def _open(layout: HiveLayout, flags: int) -> int:
    try:
        return os.open(lock_path(layout), flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise Misconfigured(
            f"{lock_path(layout)} cannot be opened: {exc.strerror}; run hivectl as the hive's user"
        ) from exc


def find_instance(layout: HiveLayout) -> Instance | None:
    """The running supervisor; None when there is none, or it has not written its name yet."""
    if not is_running(layout):
        return None
    try:
        content = json.loads(lock_path(layout).read_bytes())
        return Instance(
            int(content["pid"]),
            int(content["started_at"]),
            stopping=content.get("stopping") is True,
            settled="port_base" in content,
            nats_url=content.get("nats_url"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
