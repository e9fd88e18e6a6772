"""A task's private directory: who holds its lock is its supervisor, and `end.json` is how it ended.

The directory lies outside of what the agent can reach. Room for the end is taken when the task starts, so
that a full disk cannot keep it from being written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Final, cast

from shared.tasks.model import End

LOCK: Final = "lock"
SOCKET: Final = "control"
END: Final = "end.json"
GROUP: Final = "cgroup"
_ROOM: Final = "end.room"
_ROOM_BYTES: Final = 8_192
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def create_record(path: Path) -> int:
    """Make the directory of a new task and take its lock; returns the lock's descriptor.

    The lock belongs to the open file: whoever holds a copy of the descriptor holds it, and the kernel lets go
    of it when the last holder is gone, however it went (flock(2)).

    Raises:
        OSError: as `mkdir(2)` and `open(2)`.
    """
    path.mkdir(mode=0o700)
    directory = os.open(path, _DIRECTORY)
    try:
        lock = os.open(LOCK, _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(directory)
    return lock


def is_held(path: Path) -> bool:
    """Whether a supervisor, or a daemon that is about to start one, has the task."""
    try:
        lock = os.open(path / LOCK, _FILE)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def take_room(directory: int) -> None:
    """Reserve what the end will need.

    Raises:
        OSError: `ENOSPC` when the disk is full now.
    """
    room = os.open(_ROOM, _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
    try:
        os.posix_fallocate(room, 0, _ROOM_BYTES)
    finally:
        os.close(room)


def write_end(directory: int, end: End) -> None:
    """Put the end in place, whole or not at all; `make_durable` is the second step."""
    data = json.dumps(end, ensure_ascii=True).encode()
    room = os.open(_ROOM, _FILE | os.O_CREAT, 0o600, dir_fd=directory)
    try:
        os.pwrite(room, data, 0)
        os.ftruncate(room, len(data))
    finally:
        os.close(room)
    os.rename(_ROOM, END, src_dir_fd=directory, dst_dir_fd=directory)


def make_durable(directory: int) -> None:
    """Have the end survive a loss of power as well."""
    end = os.open(END, _FILE, dir_fd=directory)
    try:
        os.fsync(end)
    finally:
        os.close(end)
    os.fsync(directory)


def find_end(path: Path) -> End | None:
    """How the task ended, if that was written; an end that a loss of power has spoilt was not."""
    try:
        return cast("End", json.loads((path / END).read_bytes()))
    except (FileNotFoundError, ValueError):
        return None


def has_begun(path: Path) -> bool:
    """Whether a supervisor that has not written an end may have started the task: it listened by then."""
    return os.path.lexists(path / SOCKET)


def remove_record(path: Path) -> None:
    """Remove the directory of a task that is told of elsewhere; what is not there is fine."""
    for name in (SOCKET, _ROOM, LOCK, END, GROUP):
        (path / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()
