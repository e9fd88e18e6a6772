"""The sandbox of namespaces: a root made of what a plan shows, with processes and shared memory of its own.

`write_program` thinks once for many processes; the rest runs in each child, before the caller's code.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from shared.prctl import PR_SET_DUMPABLE, prctl
from shared.sandbox import careful, kernel, system
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.paths import is_within
from shared.sandbox.plan import DEVICE, SYSTEM, Plan, Step

FLAGS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
# The new root is put together here: nothing below it is shown, and it exists wherever Linux runs.
_BASE = "/proc"
_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_DEVICE_LINKS = (
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
)


@dataclass(frozen=True)
class Program:
    """What is done in each child, in order.

    Attributes:
        layer: directories, then names to blot out, of the layer over `/etc`; empty when nothing is hidden.
        base: directories, links and system files.
        configuration: the same below `/etc`, for when the layer cannot be laid.
        devices: nodes of /dev.
        rest: what is not the system's.
    """

    layer: tuple[tuple[str, ...], tuple[str, ...]]
    base: tuple[Step, ...]
    configuration: tuple[Step, ...]
    devices: tuple[str, ...]
    rest: tuple[Step, ...]


def write_program(plan: Plan) -> Program:
    """Sort the steps of a plan by how they are carried out."""
    base: list[Step] = []
    configuration: list[Step] = []
    devices: list[str] = []
    rest: list[Step] = []
    for step in plan.steps:
        if step.foreign or (step.kind == "tree" and step.access not in {SYSTEM, DEVICE}):
            rest.append(step)
        elif step.access == DEVICE and step.kind == "tree":
            devices.append(step.path)
        elif plan.secrets and not step.mounted and is_within(step.path, system.CONFIGURATION):
            configuration.append(step)
        else:
            base.append(step)
    # The layer lies where the sandbox's own /proc will cover it.
    names = tuple("proc" + path for path in plan.secrets)
    directories: set[str] = set()
    for name in names:
        while (name := os.path.dirname(name)) != "proc":
            directories.add(name)
    return Program(
        (tuple(sorted(directories)), names), tuple(base), tuple(configuration), tuple(devices), tuple(rest)
    )


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
        prctl(PR_SET_DUMPABLE, 1)
        _write("/proc/self/setgroups", b"deny")
        _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
        _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        prctl(PR_SET_DUMPABLE, 0)


def build_root(program: Program) -> None:
    """Put the root together and move into it; the working directory is `/` then."""
    umask = os.umask(0o022)
    with doing("mount a root for the sandbox"):
        kernel.mount(b"tmpfs", os.fsencode(_BASE), kernel.MS_NOSUID, b"mode=755")
        os.chdir(_BASE)
        root = os.open(".", os.O_PATH | os.O_CLOEXEC)
        os.mkdir("proc")
    _show_base(program.base if _lay_over_secrets(program) else program.configuration + program.base)
    with doing("protect the system's files"):
        kernel.set_mount_attributes(root, kernel.ATTR_NODEV, whole_tree=True)
        _make_devices(program)
        # Devices as well, which can still be written, but not given another mode, as root's own uid could.
        kernel.set_mount_attributes(root, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID, whole_tree=True)
        kernel.set_mount_attributes(root, 0, clear=kernel.ATTR_RDONLY)
    with doing("mount /proc, /dev/pts and /dev/shm"):
        _mount_own()
        _mount_proc(root)
    careful.show(root, program.rest)
    with doing("move into the sandbox's root"):
        kernel.set_mount_attributes(root, kernel.ATTR_RDONLY)
        kernel.enter_root()
        os.chdir("/")
    os.close(root)
    os.umask(umask)


def _lay_over_secrets(program: Program) -> bool:
    """Show `/etc` under a layer of whiteouts, which hide by name, whatever is put there later.

    Returns:
        Whether there is nothing more to show of it.
    """
    directories, names = program.layer
    if not names:
        return True
    try:
        for path in directories:
            os.mkdir(path)
        for path in names:
            os.mknod(path, 0o20000, 0)
        os.mkdir("etc")
        layers = os.fsencode(f"lowerdir={_BASE}/{directories[0]}:{system.CONFIGURATION}")
        kernel.mount(b"overlay", b"etc", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV, layers)
    except OSError:
        return False
    return True


def _show_base(steps: tuple[Step, ...]) -> None:
    at = ""
    try:
        for step in steps:
            at, where = step.path, step.path[1:]
            if step.kind == "link":
                os.symlink(step.source, where)
            elif step.kind == "directory":
                _make_directory(where)
            else:
                _bind(step.path, where)
    except OSError as exc:
        raise SandboxFailed(f"show {at}", exc.errno or 0) from exc


def _make_directory(where: str) -> None:
    # It may be there: `etc`, from a layer that could not be laid.
    with contextlib.suppress(FileExistsError):
        os.mkdir(where)


def _bind(path: str, where: str) -> None:
    try:
        is_directory = os.path.isdir(path)
        if is_directory:
            os.mkdir(where)
        else:
            os.close(os.open(where, os.O_CREAT | os.O_CLOEXEC, 0o644))
        kernel.bind(os.fsencode(path), os.fsencode(where))
    except FileNotFoundError:
        pass  # It has gone since the plan was made.


def _make_devices(program: Program) -> None:
    for where, target in _DEVICE_LINKS:
        os.symlink(target, where)
    for path in program.devices:
        _bind(path, path[1:])
    os.mkdir("dev/pts")
    os.mkdir("dev/shm")


def _mount_own() -> None:
    quiet = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount(b"devpts", b"dev/pts", quiet, b"newinstance,ptmxmode=0666,mode=620")
    kernel.mount(b"tmpfs", b"dev/shm", _PLAIN, b"mode=1777")


def _mount_proc(root: int) -> None:
    kernel.mount(b"proc", b"proc", _PLAIN)
    # No namespaces inside: they would give nothing more, but much of the kernel to attack.
    _write("proc/sys/user/max_user_namespaces", b"0")
    proc = kernel.open_path(root, b"proc", 0)
    # Read-only: as root's own uid one could write /proc/sysrq-trigger and /proc/sys without any capability.
    kernel.set_mount_attributes(proc, kernel.ATTR_RDONLY)
    os.close(proc)


def _write(path: str, value: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, value)
    finally:
        os.close(file)
