"""The sandbox of Landlock: the same file system, of which only what a plan shows can be opened.

Landlock mediates neither `chmod` and `stat` nor unix sockets with a path: `syscalls` closes what it can.
"""

from __future__ import annotations

import os
import stat
import struct

from shared.sandbox import kernel
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.plan import DEVICE, WRITE, Plan

# Bits of LANDLOCK_ACCESS_FS_*, with the ABI that brought the later ones.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_CHANGE_ENTRIES = 0b1_1111_1111 << 4  # remove and make, of every kind but by rename
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_SCOPES = 0b11  # abstract unix sockets, signals
MIN_ABI = 3  # before that a file could be truncated that could not be opened
SCOPED_ABI = 6

_LOOK = _READ_FILE | _READ_DIR
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE


def _handled(abi: int) -> int:
    bits = _EXECUTE | _WRITE_FILE | _LOOK | _CHANGE_ENTRIES | _REFER | _TRUNCATE
    return bits | (_IOCTL_DEVICE if abi >= 5 else 0)


def restrict_to(plan: Plan, abi: int) -> None:
    """Allow what the plan shows, refuse all else."""
    handled = _handled(abi)
    ruleset = _create_ruleset(handled, abi)
    rights = {
        WRITE: handled & ~_MAKE_DEVICES & ~_IOCTL_DEVICE,
        DEVICE: _READ_FILE | _WRITE_FILE | handled & _IOCTL_DEVICE,
    }
    shown = [(s.source or s.path, s.access, s.required) for s in plan.steps if s.kind == "tree"]
    for path, access, required in (*shown, ("/proc", "", False)):
        allowed = rights.get(access, _LOOK | (_EXECUTE if access else 0))
        try:
            place = kernel.open_path(None, os.fsencode(path), kernel.RESOLVE_NO_SYMLINKS)
        except OSError as exc:
            if required:
                raise SandboxFailed(f"find {path}", exc.errno or 0) from exc
            continue  # What has no rule is refused.
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            allowed &= _FILE_ONLY
        kernel.landlock_allow(ruleset, struct.pack("=Qi", allowed, place))
        os.close(place)
    kernel.landlock_restrict(ruleset)
    os.close(ruleset)


def restrict_scope(abi: int) -> None:
    """Refuse signals to, and abstract sockets of, processes outside; files are left alone."""
    if abi >= SCOPED_ABI:
        ruleset = _create_ruleset(0, abi)
        kernel.landlock_restrict(ruleset)
        os.close(ruleset)


def _create_ruleset(handled: int, abi: int) -> int:
    scopes = _SCOPES if abi >= SCOPED_ABI else 0
    # handled_access_fs, handled_access_net, scoped; older kernels know only the first of them, or two.
    return kernel.landlock_ruleset(struct.pack("=QQQ", handled, 0, scopes)[: 24 if scopes else 8])
