"""Private files and directories, written whole or not at all, through no symbolic link.

Directories are opened first and names are resolved inside them, so that a link planted in a directory
which an agent may write cannot lead a daemon elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from shared.errors import HiveError, Misconfigured

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def _explain(verb: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` into an error that names the path and the reason."""
    try:
        yield
    except OSError as exc:
        links = [str(p) for p in (path, path.parent) if p.is_symlink()]
        if links and exc.errno in (errno.ENOTDIR, errno.ELOOP):
            raise Misconfigured(
                f"cannot {verb} {path}: {links[0]} is a symbolic link, which is not followed; give its target"
            ) from exc
        if isinstance(exc, (FileNotFoundError, NotADirectoryError)):
            raise Misconfigured(f"cannot {verb} {path}: {exc.strerror}") from exc
        raise HiveError(f"cannot {verb} {path}: {exc.strerror}", code="storage_failed") from exc


@contextlib.contextmanager
def open_directory(path: Path, *, within: Path | None = None) -> Iterator[int]:
    """A descriptor of a directory that must exist and be no symbolic link.

    Args:
        path: the directory.
        within: an ancestor from which on no component may be a symbolic link. Give it when more than the
            last component can be written by an agent.

    Raises:
        OSError: as `open(2)` does; `ENOTDIR` or `ELOOP` for a link.
        ValueError: when `path` is not below `within`, or contains `..`.
    """
    start = path if within is None else within
    parts = () if within is None else path.relative_to(within).parts
    if ".." in parts:
        raise ValueError(f"{path} leaves {within}")
    fd = os.open(start, _DIRECTORY)
    try:
        for part in parts:
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def write_private(
    path: Path, data: bytes, *, mode: int = 0o600, within: Path | None = None, hand_over: bool = False
) -> None:
    """Replace `path` by `data` in one step: readers see the old content or the new one, also after a crash.

    A symbolic link at `path` is replaced, never followed. The parent must exist. With `hand_over` root gives
    the file to the owner of its directory; for others that changes nothing.

    Raises:
        Misconfigured: when the parent is missing or is a symbolic link.
        HiveError: `storage_failed` when the disk is full, read-only or not ours.
    """
    temporary = f".{path.name[:200]}.{secrets.token_hex(8)}"
    with _explain("write", path), open_directory(path.parent, within=within) as directory:
        fd = os.open(temporary, _NEW_FILE, 0o600, dir_fd=directory)
        try:
            with open(fd, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
                file.write(data)
                file.flush()
                # The umask may have taken bits away that the caller wants, such as a group's.
                os.fchmod(fd, mode)
                if hand_over:
                    _hand_over(fd, directory)
                os.fsync(fd)
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)


def remove_private(path: Path, *, within: Path | None = None) -> None:
    """Remove a file durably; none there is fine.

    Raises:
        HiveError: `storage_failed` when it cannot be removed.
    """
    with _explain("remove", path), open_directory(path.parent, within=within) as directory:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
        os.fsync(directory)


def make_private_dir(path: Path, mode: int = 0o700, *, hand_over: bool = False) -> None:
    """Create a directory, and missing parents as 0700; one that exists gets `mode`.

    With `hand_over` root gives one that it creates to the owner of the parent.

    Raises:
        HiveError: when it cannot be created, or something else (a symbolic link too) is in its place.
    """
    with _explain("create the directory", path):
        if not path.parent.exists():
            make_private_dir(path.parent)
        created = False
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=mode)
            created = True
        with open_directory(path) as fd:
            if os.fstat(fd).st_mode & 0o7777 != mode:
                os.fchmod(fd, mode)
            if created and hand_over:
                with open_directory(path.parent) as parent:
                    _hand_over(fd, parent)


def _hand_over(fd: int, directory: int) -> None:
    """As root, make the owner of a directory the owner of something in it."""
    if os.geteuid() == 0:
        owner = os.fstat(directory)
        os.fchown(fd, owner.st_uid, owner.st_gid)
