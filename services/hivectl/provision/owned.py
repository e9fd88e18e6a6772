"""Writes files of a hive for whoever owns the directory they lie in: under systemd root runs `hivectl`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from shared.runtime.files import make_private_dir, write_private

_MAX_SECRET_BYTES = 4096


def write_owned(path: Path, data: bytes) -> None:
    """`write_private`, and as root the file is its directory's owner's.

    Raises:
        HiveError: as `write_private` does.
    """
    write_private(path, data, hand_over=True)


def make_owned_dir(path: Path) -> None:
    """`make_private_dir`, and as root a new directory is its parent's owner's.

    Raises:
        HiveError: as `make_private_dir` does.
    """
    make_private_dir(path, hand_over=True)


def read_owned(path: Path) -> bytes:
    """A small file in a directory that an agent may write: a link there leads root nowhere.

    Raises:
        OSError: as `open(2)` does; `ELOOP` for a link.
    """
    # O_NONBLOCK: a FIFO in the file's place must not hang whoever reads.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, _MAX_SECRET_BYTES)
    except BlockingIOError as exc:
        raise OSError(errno.EINVAL, "no regular file", str(path)) from exc
    finally:
        os.close(fd)
