"""Reads a hive's files, which may be damaged: what is wrong is an OSError or a ValueError; nothing hangs."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

# A `hive.json` of a thousand agents has half of this.
MAX_BYTES = 4 * 1024 * 1024


def read_regular(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: as `open(2)` does; also for what is no regular file, and for one of more than 4 MiB.
    """
    try:
        # O_NONBLOCK: a FIFO in the file's place must not hang whoever reads.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as exc:
        raise OSError(errno.EINVAL, "no path", str(path)) from exc
    with open(fd, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def parse_json(content: bytes) -> Any:  # noqa: ANN401 (it may be anything)
    """What the JSON says.

    Raises:
        ValueError: when it is none, or is nested deeper than the parser goes.
    """
    try:
        return json.loads(content)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def read_json(path: Path) -> Any:  # noqa: ANN401 (it may be anything)
    """The content of a JSON file.

    Raises:
        OSError: when it cannot be read.
        ValueError: when it is no JSON.
    """
    return parse_json(read_regular(path))
