"""The sandbox of namespaces: a root made of what a plan shows, with processes and shared memory of its own.

Runs in the child between clone and the caller's code; everything raises `SandboxFailed` or `OSError`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from shared.sandbox import kernel, system
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.paths import is_within
from shared.sandbox.plan import DEVICE, WRITE, Plan, Step

FLAGS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
# The new root is put together here: nothing below it is shown, and it exists wherever Linux runs.
_BASE = b"/proc"
_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_ATTRIBUTES = {
    WRITE: kernel.ATTR_NOSUID | kernel.ATTR_NODEV,
    DEVICE: kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC | kernel.ATTR_RDONLY,
}
_READ = kernel.ATTR_NOSUID | kernel.ATTR_NODEV | kernel.ATTR_RDONLY


@contextlib.contextmanager
def doing(step: str) -> Iterator[None]:
    """Name what an `OSError` in the block was about."""
    try:
        yield
    except OSError as exc:
        raise SandboxFailed(step, exc.errno or 0) from exc


def keep_ids(uid: int, gid: int) -> None:
    """Inside a new user namespace: the same user and group as before, and nobody else."""
    with doing("write the user namespace's id maps"):
        # A process that is not dumpable does not own its files in /proc.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        _write("/proc/self/setgroups", b"deny")
        _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
        _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def build_root(plan: Plan) -> None:
    """Put the root together and move into it; the working directory is `/` then."""
    with doing("mount a root for the sandbox"):
        kernel.mount(b"tmpfs", _BASE, kernel.MS_NOSUID, b"mode=755")
        os.chdir(_BASE)
        root = os.open(".", os.O_PATH | os.O_CLOEXEC)
        os.mkdir("proc")
    covered = _lay_over_secrets(plan.secrets)
    for step in plan.steps:
        overlaid = covered and is_within(step.path, system.CONFIGURATION)
        if not overlaid or step.mounted or step.required or step.access == WRITE:
            with doing(f"show {step.path}"):
                _show(root, step)
    with doing("mount /dev, /proc and /dev/shm"):
        _make_devices()
        _mount_proc(root)
    with doing("move into the sandbox's root"):
        kernel.set_mount_attributes(root, _READ, whole_tree=False)
        kernel.enter_root()
        os.chdir("/")
    os.close(root)


def _lay_over_secrets(secrets: Iterable[str]) -> bool:
    """Show `/etc` under a layer of whiteouts, which hide by name, whatever is put there later.

    Returns:
        Whether it could be done; if not, `/etc` is still to be shown.
    """
    if not secrets:
        return False
    try:
        # The layer lies where the sandbox's own /proc will cover it.
        for path in secrets:
            inside = "proc" + path
            os.makedirs(os.path.dirname(inside), 0o755, exist_ok=True)
            os.mknod(inside, 0o20000, 0)
        os.mkdir("etc")
        layers = b"lowerdir=%s/proc/etc:/etc" % _BASE
        kernel.mount(b"overlay", b"etc", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV, layers)
    except OSError:
        return False
    return True


def _show(root: int, step: Step) -> None:
    where = step.path[1:]
    parent = root
    try:
        if step.foreign:
            parent, where = _find_with_care(root, where)
        if step.kind == "directory":
            with contextlib.suppress(FileExistsError):
                os.mkdir(where, 0o755, dir_fd=parent)
        elif step.kind == "link":
            _link(step.source, where, parent)
        else:
            _show_tree(parent, where, step)
    finally:
        if parent != root:
            os.close(parent)


def _show_tree(parent: int, where: str, step: Step) -> None:
    # No link is followed here or at the target: an agent may have swapped a directory for one.
    unlinked = kernel.RESOLVE_NO_SYMLINKS | kernel.RESOLVE_NO_MAGICLINKS
    try:
        source = kernel.open_path(None, os.fsencode(step.source or step.path), unlinked)
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
        target = kernel.open_path(parent, os.fsencode(where), unlinked | kernel.RESOLVE_BENEATH)
        kernel.attach(tree, target)
        os.close(target)
        os.close(tree)
    finally:
        os.close(source)


def _link(target: str, where: str, parent: int) -> None:
    try:
        os.symlink(target, where, dir_fd=parent)
    except FileExistsError:
        os.unlink(where, dir_fd=parent)
        os.symlink(target, where, dir_fd=parent)


def _find_with_care(root: int, path: str) -> tuple[int, str]:
    """The directory of a place in a tree that the agent writes; made where missing."""
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


def _make_devices() -> None:
    for link, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ):
        os.symlink(target, f"dev/{link}")
    os.mkdir("dev/pts")
    os.mkdir("dev/shm")
    kernel.mount(
        b"devpts", b"dev/pts", kernel.MS_NOSUID | kernel.MS_NOEXEC, b"newinstance,ptmxmode=0666,mode=620"
    )
    kernel.mount(b"tmpfs", b"dev/shm", _PLAIN, b"mode=1777")


def _mount_proc(root: int) -> None:
    kernel.mount(b"proc", b"proc", _PLAIN)
    # No namespaces inside: they would give nothing more, but much of the kernel to attack.
    _write("proc/sys/user/max_user_namespaces", b"0")
    proc = kernel.open_path(root, b"proc", 0)
    # Read-only: as root's own uid one could write /proc/sysrq-trigger and /proc/sys without any capability.
    kernel.set_mount_attributes(proc, kernel.ATTR_RDONLY, whole_tree=False)
    os.close(proc)


def _write(path: str, value: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, value)
    finally:
        os.close(file)
