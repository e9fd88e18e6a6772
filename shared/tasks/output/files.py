"""The files of one stream of a task, in the directory of tasks, and how they are opened.

`<id>.out` holds the head. Further bytes are in segments, `<id>.out.<head bytes>-<start>`: a name says how
long the head became and at which byte of the stream the segment starts, so that the files alone tell what
they are. The directory belongs to the agent, which may put anything under these names: no link is followed,
nothing else than a plain file with this one name is opened.
"""

from __future__ import annotations

import errno
import os
import stat

_NO_COPY_RANGE = {errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}
_COPY_BYTES = 64 * 1024
_DIGITS = 15  # a petabyte; names then sort as their starts do


def segment_name(name: str, head_bytes: int, start: int) -> str:
    """The file of the segment that starts at byte `start` of the stream `name`."""
    return f"{name}.{head_bytes:0{_DIGITS}d}-{start:0{_DIGITS}d}"


def parse_segment(name: str, file: str) -> tuple[int, int] | None:
    """(bytes of the head, start) of a segment of the stream `name`, or None where `file` is none."""
    if not file.startswith(f"{name}."):
        return None
    head, dash, start = file[len(name) + 1 :].partition("-")
    if not dash or not all(
        len(part) >= _DIGITS and part.isascii() and part.isdigit() for part in (head, start)
    ):
        return None
    return (int(head), int(start)) if segment_name(name, int(head), int(start)) == file else None


def list_segments(directory_fd: int, name: str) -> list[tuple[int, str]]:
    """(start, file) of the segments of a stream, in order; empty where the directory cannot be read."""
    try:
        files = os.listdir(directory_fd)
    except OSError:
        return []
    found = [(parsed[1], file) for file in files if (parsed := parse_segment(name, file)) is not None]
    return sorted(found)


def create_file(directory_fd: int, file: str) -> int:
    """Create a file that was not there, for reading and writing.

    Raises:
        OSError: it cannot be created; FileExistsError where something has the name, be it a dangling link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(file, flags, 0o600, dir_fd=directory_fd)


def open_file(directory_fd: int, file: str, *, write: bool = False) -> int:
    """Open a plain file that is there.

    A second name (a hard link) is refused as well: the file may be one that its owner could not read.

    Raises:
        FileNotFoundError: nothing, or something else than a plain file, has this name.
        OSError: it cannot be opened.
    """
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(file, flags, dir_fd=directory_fd)
    except OSError as exc:
        # A link, a socket or a FIFO without a reader, a directory: the output is gone.
        if exc.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR}:
            raise FileNotFoundError(errno.ENOENT, "replaced", file) from exc
        raise
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return fd
    os.close(fd)
    raise FileNotFoundError(errno.ENOENT, "replaced", file)


def remove_file(directory_fd: int, file: str) -> bool:
    """Remove a name, also of an empty directory; whether nothing has it now."""
    for remove in (os.unlink, os.rmdir):
        try:
            remove(file, dir_fd=directory_fd)
        except FileNotFoundError:
            return True
        except OSError:
            continue
        return True
    return False


def free_file(fd: int) -> None:
    """Give back what an open file takes on the disk, whatever names it has, and close it."""
    try:
        os.ftruncate(fd, 0)
    except OSError:
        return  # a broken disk
    finally:
        os.close(fd)


def copy_file(source: int, target: int, length: int, position: int) -> None:
    """Copy the first `length` bytes of a file to `position` of another; a shorter file gives what it has.

    Raises:
        OSError: it cannot be written.
    """
    done, by_kernel = 0, True
    while done < length:
        count, at = length - done, position + done
        try:
            if by_kernel:
                copied = os.copy_file_range(source, target, count, offset_src=done, offset_dst=at)
            else:
                copied = os.pwrite(target, os.pread(source, min(count, _COPY_BYTES), done), at)
        except OSError as exc:
            if not by_kernel or exc.errno not in _NO_COPY_RANGE:
                raise
            by_kernel = False
            continue
        if not copied:
            return
        done += copied
