"""Which system calls are refused inside, as a seccomp filter: what neither namespaces nor Landlock mediate.

Kept short: it closes ways out, and is no attempt to list what programs need.
"""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Iterable

from shared.sandbox import kernel

# On x86_64, and on aarch64 and riscv64, which do not have all.
_NAMES: dict[str, tuple[int, int | None]] = {
    "open": (2, None),
    "ioctl": (16, 29),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "semget": (64, 190),
    "msgget": (68, 186),
    "creat": (85, None),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "mknod": (133, None),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "openat": (257, 56),
    "mknodat": (259, 33),
    "fchmodat": (268, 53),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "prlimit64": (302, 261),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "fchmodat2": (452, 452),
}
_AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7, "riscv64": 0xC000_00F3}
_X32 = 0x4000_0000
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# O_CREAT, and O_TMPFILE without its O_DIRECTORY; S_ISUID and S_ISGID.
_CREATES, _SET_ID = 0o20_000_100, 0o6_000
_AF_UNIX, _SOCK_DGRAM, _SOCK_RAW = 1, 2, 3

_Line = tuple[int, int, int, int]


def _refuse(error: int = errno.EPERM) -> _Line:
    return (_RETURN, 0, 0, _ERRNO | error)


def _argument(number: int) -> _Line:
    # The low half; all machines we know are little-endian, and the kernel reads these as 32 bits.
    return (_LOAD, 0, 0, 16 + 8 * number)


def _when(test: int, argument: int, values: Iterable[int], *, mask: int = 0) -> list[_Line]:
    """Refuse when an argument passes the test with one of the values."""
    lines = [_argument(argument)]
    if mask:
        lines.append((_MASK, 0, 0, mask))
    for value in values:
        lines += [(test, 0, 1, value), _refuse()]
    return lines


def _when_created(flags: int, mode: int) -> list[_Line]:
    """Refuse a mode with a set-id bit where the flags make a file; without them the mode is any number."""
    body = _when(_HAS_BITS, mode, (_SET_ID,))
    return [_argument(flags), (_HAS_BITS, 0, len(body), _CREATES), *body]


# What no sandbox has: programs that others of the machine would run as whoever owns them, typing into its
# terminal, keys of the session, calls whose faults opened kernels.
_ALWAYS: dict[str, list[_Line]] = {
    "ioctl": _when(_EQUAL, 1, (_TIOCSTI, _TIOCLINUX)),
    **{name: _when(_HAS_BITS, 1, (_SET_ID,)) for name in ("chmod", "fchmod", "creat", "mknod")},
    **{name: _when(_HAS_BITS, 2, (_SET_ID,)) for name in ("fchmodat", "fchmodat2", "mknodat")},
    "open": _when_created(1, 2),
    "openat": _when_created(2, 3),
    # Its mode cannot be seen from here; without it, everybody falls back to openat.
    "openat2": [_refuse(errno.ENOSYS)],
    **{
        name: [_refuse()]
        for name in ("add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd")
    },
}
# Without namespaces: every socket file of the user would be open (another agent's, or the service manager's,
# which starts programs outside), and shared memory, limits of other processes, and user namespaces.
_WITHOUT_NAMESPACES: dict[str, list[_Line]] = {
    "socket": _when(_EQUAL, 0, (_AF_UNIX,)),
    # A pair is connected for good, but one of datagrams could still be sent elsewhere.
    "socketpair": _when(_EQUAL, 1, (_SOCK_DGRAM, _SOCK_RAW), mask=0xF),
    "clone": _when(_HAS_BITS, 0, (kernel.CLONE_NEWUSER,)),
    "unshare": _when(_HAS_BITS, 0, (kernel.CLONE_NEWUSER,)),
    # Its flags cannot be seen from here; without it, everybody falls back to clone.
    "clone3": [_refuse(errno.ENOSYS)],
    # It could make sockets that no filter sees.
    "io_uring_setup": [_refuse()],
    "prlimit64": [_argument(0), (_EQUAL, 1, 0, 0), _refuse()],
    **{name: [_refuse()] for name in ("shmget", "semget", "msgget", "mq_open")},
}


@functools.cache
def build_filter(*, namespaces: bool) -> bytes:
    """The filter's program for this machine."""
    rules = _ALWAYS if namespaces else _ALWAYS | _WITHOUT_NAMESPACES
    column = 0 if kernel.MACHINE == "x86_64" else 1
    # Programs of another numbering (32-bit ones) would pass by these numbers: there are none inside.
    lines: list[_Line] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _AUDIT[kernel.MACHINE]),
        _refuse(errno.ENOSYS),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        _refuse(errno.ENOSYS),
    ]
    for name, body in rules.items():
        number = _NAMES[name][column]
        if number is None:
            continue
        lines += [(_EQUAL, 0, len(body) + 1, number), *body, (_RETURN, 0, 0, _ALLOW)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def restrict_calls(*, namespaces: bool) -> None:
    """Put this process, and all that come from it, under the filter."""
    kernel.install_filter(build_filter(namespaces=namespaces))
