"""Which files of the system a sandbox shows, and which of them it keeps back."""

from __future__ import annotations

import os
import stat

# Missing ones are skipped. NixOS and Guix keep theirs in a store, with links below /run.
READABLE: tuple[str, ...] = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/var/lib/ca-certificates",
    "/var/lib/alternatives",
    "/var/lib/dpkg",
)
# Read through a link that may lead out of the directories above, into /run for one.
FILES: tuple[str, ...] = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
)
DEVICES: tuple[str, ...] = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
)
TEMPORARY: tuple[str, ...] = ("/tmp", "/var/tmp")  # noqa: S108 - what the names mean inside
# Made anew for each sandbox, so never shown from outside, not even when the operator adds all of `/`.
MADE: tuple[str, ...] = ("/proc", "/dev", "/sys", *TEMPORARY)
CONFIGURATION = "/etc"


def list_secrets(tree: str = CONFIGURATION) -> list[str]:
    """What we may read there and not everybody may: password hashes, host keys, private keys.

    For an ordinary user this is next to nothing; root would read all of it.
    """
    secrets: list[str] = []
    todo = [tree]
    while todo:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                continue
            is_directory = stat.S_ISDIR(mode)
            wanted = stat.S_IROTH | (stat.S_IXOTH if is_directory else 0)
            if mode & wanted == wanted:
                if is_directory:
                    todo.append(entry.path)
            elif os.access(entry.path, os.R_OK):
                secrets.append(entry.path)
    return secrets
