"""Listening unix sockets: there whole or not at all, for whom they are meant, never over a living one.

Identity is the socket: whoever may connect is taken for its owner. So the mode is set before anybody can
connect, and the kernel is asked who did (`SO_PEERCRED`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.errors import HiveError, Misconfigured, Unavailable
from shared.layout import check_socket_path
from shared.runtime.files import make_private_dir, open_directory

BACKLOG = 128
OWN_MODE = 0o600
GROUP_MODE = 0o660
_LOCK_SECONDS = 2.0
_PROBE_SECONDS = 1.0
_PEER = struct.Struct("3i")
# Source: Linux socket(7), <asm-generic/socket.h>; Python does not name it.
_SO_PEERGROUPS = 59
_MAX_GROUPS_BYTES = 4 * 1024


class HasOptions(Protocol):
    """A socket, or what an event loop gives instead of one."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class AllowedPeers:
    """Who may speak at a socket: its own user, root, and the members of a group where it has one."""

    uid: int
    gid: int | None = None

    def admit(self, connection: HasOptions) -> bool:
        """Whether the process that made a connection may use it."""
        _, uid, gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        if uid in (self.uid, 0):
            return True
        return self.gid is not None and (gid == self.gid or self.gid in _list_groups(connection))


class UnixListener:
    """A socket that listens at `path`; `close` takes the file away if it is still this one's."""

    def __init__(self, path: Path, listener: socket.socket, identity: os.stat_result) -> None:
        self.path = path
        self.socket = listener
        self._identity = (identity.st_dev, identity.st_ino)

    @property
    def peers(self) -> AllowedPeers:
        """Who may speak here now, as its file says: the operator may give it to a group later."""
        found = self._find_file()
        shared = found is not None and bool(found.st_mode & stat.S_IRWXG)
        return AllowedPeers(os.geteuid(), found.st_gid if found is not None and shared else None)

    def is_as_wanted(self) -> bool:
        """Whether its file is still there, and for whom its directory says now."""
        found = self._find_file()
        try:
            wanted = _wanted_group(self.path.parent.stat())
        except OSError:
            return False
        return found is not None and (wanted is None or found.st_gid == wanted)

    def close(self) -> None:
        """Stop listening. May be repeated."""
        self.socket.close()
        if self._find_file() is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _find_file(self) -> os.stat_result | None:
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found if (found.st_dev, found.st_ino) == self._identity else None


def open_unix_listener(path: Path, *, setting: str) -> UnixListener:
    """Listen at `path`, 0600; in a set-group-ID directory of another group 0660, for that group.

    A missing directory is made, 0700. A socket that nobody serves any more is replaced.

    Args:
        path: where.
        setting: what decides about the path, for errors.

    Raises:
        Misconfigured: when the path is over 107 bytes, or something else is there.
        Unavailable: when another process serves the path.
        HiveError: `storage_failed` when the directory admits none.
    """
    check_socket_path(path, setting=setting)
    if not path.parent.exists():
        make_private_dir(path.parent)
    try:
        with open_directory(path.parent) as directory:
            _lock(directory, path)
            _check_free(path, directory)
            return _listen(path, directory)
    except OSError as exc:
        raise HiveError(
            f"cannot listen at {path}: {exc.strerror}; check its directory, or {setting}",
            code="storage_failed",
        ) from exc


def _lock(directory: int, path: Path) -> None:
    """Keep others from looking at, and replacing, the same stale socket; ends with the descriptor."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise Unavailable(f"another process holds the directory of {path}; end it") from None
            time.sleep(0.02)
        else:
            return


def _check_free(path: Path, directory: int) -> None:
    try:
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise Misconfigured(f"{path} is there and is no socket; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except OSError as exc:
            if exc.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return
    raise Unavailable(f"another process serves {path}; end it first", code="socket_taken")


def _listen(path: Path, directory: int) -> UnixListener:
    shared = _wanted_group(os.fstat(directory)) is not None
    # As long as `mcp.sock` at most, for the same limit.
    temporary = f".{secrets.token_hex(3)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A new file in a set-group-ID directory has the directory's group.
        listener.bind(str(path.parent / temporary))
        try:
            os.chmod(temporary, GROUP_MODE if shared else OWN_MODE, dir_fd=directory)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            identity = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
    except BaseException:
        listener.close()
        raise
    return UnixListener(path, listener, identity)


def _wanted_group(directory: os.stat_result) -> int | None:
    """The group that a directory has its sockets be for, if that is not our own."""
    is_shared = bool(directory.st_mode & stat.S_ISGID) and directory.st_gid != os.getegid()
    return directory.st_gid if is_shared else None


def _list_groups(connection: HasOptions) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_GROUPS_BYTES)
    except OSError:
        # An older kernel, or more groups than anybody has.
        return ()
    return struct.unpack(f"{len(raw) // 4}i", raw)
