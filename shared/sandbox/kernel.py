"""The system calls of the sandbox, by ctypes: typed, each raising `OSError`. Decides nothing.

`PyDLL` keeps the interpreter's lock over a call: a clone comes back in the child as the thread that holds it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_long, c_size_t, c_ulong, c_void_p

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
RESOLVE_NO_MAGICLINKS = 2
RESOLVE_NO_SYMLINKS = 4
RESOLVE_BENEATH = 8

_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_SIGCHLD = 17
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_FROM_FD, _MOVE_TO_FD = 0x4, 0x40
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x2008_0522

# Numbers that differ by machine; those above 423 are the same everywhere.
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "keyctl": 250},
    "aarch64": {"clone": 220, "pivot_root": 41, "keyctl": 219},
    "riscv64": {"clone": 220, "pivot_root": 41, "keyctl": 219},
}
MACHINE = platform.machine()
KNOWN_MACHINE = MACHINE in _NUMBERS
_NR = _NUMBERS.get(MACHINE, _NUMBERS["aarch64"])

_libc = ctypes.PyDLL(None, use_errno=True)
python = ctypes.pythonapi


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", c_char_p))


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", c_int))


def _function(name: str, result: type, *arguments: type) -> Callable[..., int]:
    # By index a library gives a new function each time, by attribute always the same one.
    function = _libc[name]
    function.restype, function.argtypes = result, arguments
    return function


def _call(*arguments: type) -> Callable[..., int]:
    return _function("syscall", c_long, c_long, *arguments)


_plain = _call(c_long, c_long, c_long, c_long, c_long)
_openat2 = _call(c_int, c_char_p, c_void_p, c_size_t)
_open_tree = _call(c_int, c_char_p, c_ulong)
_move_mount = _call(c_int, c_char_p, c_int, c_char_p, c_ulong)
_mount_setattr = _call(c_int, c_char_p, c_ulong, c_void_p, c_size_t)
_two_paths = _call(c_char_p, c_char_p)
_bytes_first = _call(c_char_p, c_size_t, c_ulong)
_rule = _call(c_int, c_int, c_char_p, c_ulong)
_mount = _function("mount", c_int, c_char_p, c_char_p, c_char_p, c_ulong, c_char_p)
_umount2 = _function("umount2", c_int, c_char_p, c_int)
_prctl = _function("prctl", c_int, c_int, c_ulong, c_ulong, c_ulong, c_ulong)
_prctl_pointer = _function("prctl", c_int, c_int, c_ulong, c_void_p, c_ulong, c_ulong)
_capset = _function("capset", c_int, c_void_p, c_char_p)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def clone(flags: int) -> int:
    """Fork with these namespaces: 0 in the child. Only for a process of one thread."""
    return _checked(_plain(_NR["clone"], flags | _SIGCHLD, 0, 0, 0, 0))


def open_path(directory: int | None, path: bytes, resolve: int) -> int:
    """An `O_PATH` descriptor, found under the `RESOLVE_*` rules."""
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, resolve)
    where = _AT_FDCWD if directory is None else directory
    return _checked(_openat2(437, where, path, ctypes.addressof(how), ctypes.sizeof(how)))


def clone_tree(descriptor: int) -> int:
    """A detached copy of what is mounted at and below the descriptor."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return _checked(_open_tree(428, descriptor, b"", flags))


def set_mount_attributes(
    descriptor: int, attributes: int, *, clear: int = 0, whole_tree: bool = False
) -> None:
    """Set `ATTR_*` of a mount, or all mounts of a tree, and cut it off from mounts made elsewhere."""
    attr = _MountAttr(attributes, clear, _MS_PRIVATE, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if whole_tree else 0)
    _checked(_mount_setattr(442, descriptor, b"", flags, ctypes.addressof(attr), ctypes.sizeof(attr)))


def attach(tree: int, target: int) -> None:
    """Mount a detached tree at an opened place."""
    _checked(_move_mount(429, tree, b"", target, b"", _MOVE_FROM_FD | _MOVE_TO_FD))


def mount(kind: bytes, target: bytes, flags: int, options: bytes | None = None) -> None:
    """A new file system."""
    _checked(_mount(kind, target, kind, flags, options))


def bind(source: bytes, target: bytes) -> None:
    """Show a tree, with what is mounted in it, at another place."""
    _checked(_mount(source, target, None, _MS_BIND | _MS_REC, None))


def enter_root() -> None:
    """Make the working directory the root, and let go of the old one."""
    _checked(_two_paths(_NR["pivot_root"], b".", b"."))
    _checked(_umount2(b".", MNT_DETACH))


def drop_capabilities() -> None:
    """Empty every set of capabilities, the bounding set first as that takes one."""
    number = 0
    while _prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    # EPERM: an ordinary user has none to begin with; no_new_privs then keeps it so.
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    _checked(_capset(ctypes.addressof(header), bytes(24)))


def join_new_session_keyring() -> None:
    """Leave the keys of the session we were started in."""
    _plain(_NR["keyctl"], _KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)


def close_range(first: int, last: int) -> None:
    """Close every descriptor from `first` to `last`."""
    _checked(_plain(436, first, last, 0, 0, 0))


def install_filter(program: bytes) -> None:
    """A seccomp filter for this process and all that come from it."""
    pointer = _Program(len(program) // 8, program)
    _checked(_prctl_pointer(PR_SET_SECCOMP, 2, ctypes.addressof(pointer), 0, 0))


def landlock_abi() -> int:
    """The version of Landlock that this kernel speaks, 0 without."""
    return max(0, int(_bytes_first(444, None, 0, 1)))


def landlock_ruleset(attributes: bytes) -> int:
    """A new ruleset's descriptor."""
    return _checked(_bytes_first(444, attributes, len(attributes), 0))


def landlock_allow(ruleset: int, rule: bytes) -> None:
    """Add a rule for what is beneath a path."""
    _checked(_rule(445, ruleset, 1, rule, 0))


def landlock_restrict(ruleset: int) -> None:
    """Put this process under a ruleset."""
    _checked(_plain(446, ruleset, 0, 0, 0, 0))
