"""What is the system's."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.sandbox.inside.trying import FACTS, X86, attempt, call, fact, own, read


@attempt
def read_password_hashes() -> object:
    return read("/etc/shadow")


@attempt
def write_etc() -> object:
    return Path("/etc/planted").write_text("x")


@attempt
def write_usr() -> object:
    return Path("/usr/planted").write_text("x")


@attempt
def write_sys() -> object:
    return os.open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY)


@attempt
def write_cgroup() -> None:
    os.mkdir("/sys/fs/cgroup/planted")


@attempt
def write_sysctl() -> object:
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attempt
def press_sysrq() -> object:
    return os.open("/proc/sysrq-trigger", os.O_WRONLY)


@attempt
def change_mode_of_null() -> None:
    os.chmod("/dev/null", 0o666)


@attempt
def read_disk() -> object:
    return os.open(fact("disk"), os.O_RDONLY)


@attempt
def make_disk() -> object:
    place = own("disk")
    os.mknod(place, 0o60600, int(FACTS["disk_number"]))
    return os.open(place, os.O_RDONLY)


@attempt
def mount_something() -> object:
    return call("mount", b"tmpfs", os.fsencode(fact("state")), b"tmpfs", 0, None)


@attempt
def unmount_something() -> object:
    return call("umount2", b"/tmp", 2)


@attempt
def mount_writable_again() -> object:
    return call("mount", None, b"/usr", None, 32 | 4096, None)


@attempt
def change_root() -> None:
    os.chroot(fact("state"))


@attempt
def change_root_twice() -> object:
    os.mkdir(own("jail"))
    os.chroot(own("jail"))
    for _ in range(20):
        os.chdir("..")
    os.chroot(".")
    return read(fact("operator_token"))


@attempt
def make_user_namespace() -> object:
    return call("unshare", 0x10000000)


@attempt
def make_user_namespace_by_clone() -> object:
    number = 56 if X86 else 220
    pid = call("syscall", number, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid


@attempt
def join_namespace() -> object:
    return call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


@attempt
def have_capabilities() -> object:
    lines = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    sets = {name: int(value, 16) for name, value in lines.items() if name.startswith("Cap")}
    if os.getuid() != 0 and FACTS["kind"] == "landlock":
        sets.pop("CapBnd")  # An ordinary user cannot empty it, nor use it: no new privileges.
    if not any(sets.values()) and lines["NoNewPrivs"] == "1":
        raise PermissionError(1, "none")
    return sets


@attempt
def find_foreign_descriptors() -> object:
    # One is the listing's own, the pipe of the answer is another.
    names = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if n not in "012"]
    if not any(name.startswith("/") and not name.startswith("/proc/") for name in names):
        raise FileNotFoundError(str(names))
    return names
