"""One supervisor a root: `run/supervisor.lock`, held for its life, says which process it is.

The lock is the truth and the content only a hint: it is read by `down` and by a repeated `up`. Where it is
damaged, the kernel's list of locks says who holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.hivectl.reading import parse_json, read_regular
from shared.errors import Conflict, Misconfigured
from shared.layout import HiveLayout

ALREADY_RUNNING = "already_running"
_LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class Instance:
    """The supervisor that runs.

    Attributes:
        settled: whether it has written the hive's files.
        nats_url: of a NATS server that is not its own.
        revision: of the code that it runs.
    """

    pid: int
    started_at: int
    stopping: bool = False
    settled: bool = False
    nats_url: str | None = None
    revision: str | None = None


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
        return os.open(lock_path(layout), flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise Misconfigured(
            f"{lock_path(layout)} cannot be opened: {exc.strerror}; remove what is in its place, or run "
            "hivectl as the hive's user"
        ) from exc


def find_instance(layout: HiveLayout) -> Instance | None:
    """The running supervisor; None when there is none, or it has not written its name yet.

    Raises:
        Misconfigured: `lock_damaged`, when nothing says which process it is.
    """
    if not is_running(layout):
        return None
    try:
        raw = read_regular(lock_path(layout))
    except OSError:
        raw = b"?"
    if not raw:
        return None
    holders = _list_holders(lock_path(layout))
    instance = _parse(raw)
    # What the file says is not signalled unless the kernel agrees, as far as it tells us anything.
    if instance is not None and (not holders or instance.pid in holders):
        return instance
    if len(holders) == 1:
        return Instance(holders[0], 0)
    if not is_running(layout):
        return None
    path = lock_path(layout)
    raise Misconfigured(
        f"{path} is damaged and does not say which process the supervisor of {layout.root} is; `fuser "
        f"{path}` does, or look for `hivectl up` in the list of processes: end it with `kill PID`, and it "
        "stops the hive in order",
        code="lock_damaged",
    )


def has_readable_name(layout: HiveLayout) -> bool:
    """Whether the file says who holds the lock, or nobody has written yet."""
    try:
        raw = read_regular(lock_path(layout))
    except OSError:
        return False
    return not raw or _parse(raw) is not None


def _parse(raw: bytes) -> Instance | None:
    try:
        content = parse_json(raw)
        nats_url, revision = content.get("nats_url"), content.get("revision")
        instance = Instance(
            int(content["pid"]),
            int(content["started_at"]),
            stopping=content.get("stopping") is True,
            settled="port_base" in content,
            nats_url=nats_url if isinstance(nats_url, str) else None,
            revision=revision if isinstance(revision, str) else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    # To kill(2), 0 and less are groups of processes, and 1 is nobody's supervisor.
    return instance if instance.pid > 1 else None


def _list_holders(path: Path) -> list[int]:
    """The processes that hold the lock, as far as proc_locks(5) tells: none in a foreign PID namespace.

    The device is not compared: of a file system in layers or subvolumes the kernel shows another one here.
    """
    try:
        inode = path.stat().st_ino
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
    rows = [line.split() for line in lines]
    pids = {
        int(row[4])
        for row in rows
        if len(row) > 5 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode)
    }
    return sorted(pid for pid in pids if pid != os.getpid() and _is_hivectl(pid))


def _is_hivectl(pid: int) -> bool:
    try:
        return b"hivectl" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
