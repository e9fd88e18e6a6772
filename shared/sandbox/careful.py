"""Showing what is not the system's: paths that some agent may have swapped for links meanwhile.

No link is followed, neither to what is shown nor to where; descriptors are held from the check to the mount.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from shared.sandbox import kernel
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.plan import DEVICE, WRITE, Step

_UNLINKED = kernel.RESOLVE_NO_SYMLINKS | kernel.RESOLVE_NO_MAGICLINKS
_ATTRIBUTES = {
    WRITE: kernel.ATTR_NOSUID | kernel.ATTR_NODEV,
    # A device can be written all the same, but not given another mode.
    DEVICE: kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC | kernel.ATTR_RDONLY,
}
_READ = kernel.ATTR_NOSUID | kernel.ATTR_NODEV | kernel.ATTR_RDONLY


def show(root: int, steps: Iterable[Step]) -> None:
    """Carry out steps below `root`.

    Raises:
        SandboxFailed: naming the path that could not be shown.
    """
    at = ""
    try:
        for step in steps:
            at = step.path
            _show(root, step)
    except OSError as exc:
        raise SandboxFailed(f"show {at}", exc.errno or 0) from exc


def _show(root: int, step: Step) -> None:
    where = step.path[1:]
    parent = root
    try:
        if step.foreign:
            parent, where = _find_place(root, where)
        if step.kind == "directory":
            with contextlib.suppress(FileExistsError):
                os.mkdir(where, 0o755, dir_fd=parent)
        elif step.kind == "link":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(where, dir_fd=parent)
            os.symlink(step.source, where, dir_fd=parent)
        else:
            _show_tree(parent, where, step)
    finally:
        if parent != root:
            os.close(parent)


def _show_tree(parent: int, where: str, step: Step) -> None:
    try:
        source = kernel.open_path(None, os.fsencode(step.source or step.path), _UNLINKED)
    except OSError:
        if step.required:
            raise
        return
    try:
        tree = kernel.clone_tree(source)
        kernel.set_mount_attributes(tree, _ATTRIBUTES.get(step.access, _READ), whole_tree=True)
        with contextlib.suppress(FileExistsError):
            if os.path.isdir(source):
                os.mkdir(where, 0o755, dir_fd=parent)
            else:
                os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent))
        target = kernel.open_path(parent, os.fsencode(where), _UNLINKED | kernel.RESOLVE_BENEATH)
        kernel.attach(tree, target)
        os.close(target)
        os.close(tree)
    finally:
        os.close(source)


def _find_place(root: int, path: str) -> tuple[int, str]:
    """The directory of a place in a tree that the agent writes, made where missing, instead of a link too."""
    *parents, name = path.split("/")
    here = os.dup(root)
    for part in parents:
        try:
            below = kernel.open_path(here, os.fsencode(part), kernel.RESOLVE_NO_SYMLINKS)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=here)
            os.mkdir(part, 0o755, dir_fd=here)
            below = kernel.open_path(here, os.fsencode(part), kernel.RESOLVE_NO_SYMLINKS)
        os.close(here)
        here = below
    return here, name
