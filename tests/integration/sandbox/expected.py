"""What comes of each attempt in each kind of sandbox: docs/isolation.md tells it in words."""

from __future__ import annotations

# attempt: (with namespaces, with Landlock)
REFUSED = (False, False)
ALLOWED = (True, True)
NAMESPACES_ONLY = (True, False)
# What Landlock does not mediate, and docs/isolation.md says so.
LANDLOCK_LETS_THROUGH = (False, True)
# With Landlock whatever the user may do outside: another mode for what is the user's own.
LANDLOCK_DOES_NOT_ASK = (False, None)

HIVE = {
    "read-operator-token": REFUSED,
    "read-own-token": REFUSED,
    "read-other-token": REFUSED,
    "read-other-state": REFUSED,
    "read-other-state-by-dots": REFUSED,
    "read-other-state-by-own-link": REFUSED,
    "hard-link-other-state": REFUSED,
    "write-other-state": REFUSED,
    "truncate-other-state": REFUSED,
    "list-other-state": REFUSED,
    "see-other-state": LANDLOCK_LETS_THROUGH,
    "change-mode-of-other-state": LANDLOCK_LETS_THROUGH,
    "connect-other-socket": REFUSED,
    "bind-over-own-socket": REFUSED,
}
PROTECTED = {
    "read-protected": REFUSED,
    "read-protected-by-added-link": REFUSED,
}
PROCESSES = {
    "read-daemon-environ": REFUSED,
    "read-daemon-memory": REFUSED,
    "open-daemon-descriptor": REFUSED,
    "read-through-daemon-root": REFUSED,
    "read-through-init-root": REFUSED,
    "see-daemon": LANDLOCK_LETS_THROUGH,
    "trace-daemon": REFUSED,
    "take-daemon-descriptor": REFUSED,
    "limit-daemon": REFUSED,
    "signal-daemon": REFUSED,
    "attach-shared-memory": REFUSED,
    "read-posix-shared-memory": REFUSED,
    "connect-abstract-socket": REFUSED,
    "send-datagram-by-pair": REFUSED,
    "use-keys": REFUSED,
    "type-into-terminal": REFUSED,
    "find-foreign-descriptors": REFUSED,
}
SYSTEM = {
    "read-password-hashes": REFUSED,
    "write-etc": REFUSED,
    "write-usr": REFUSED,
    "write-sys": REFUSED,
    "write-cgroup": REFUSED,
    "write-sysctl": REFUSED,
    "press-sysrq": REFUSED,
    "change-mode-of-null": LANDLOCK_DOES_NOT_ASK,
    "read-disk": REFUSED,
    "make-disk": REFUSED,
    "mount-something": REFUSED,
    "unmount-something": REFUSED,
    "mount-writable-again": REFUSED,
    "change-root": REFUSED,
    "change-root-twice": REFUSED,
    "make-user-namespace": REFUSED,
    "make-user-namespace-by-clone": REFUSED,
    "join-namespace": REFUSED,
    "have-capabilities": REFUSED,
}
WORK = {
    "use-state": ALLOWED,
    "use-temporary": ALLOWED,
    "run-own-program": ALLOWED,
    "read-added": ALLOWED,
    "write-added-readable": REFUSED,
    "write-added": ALLOWED,
    "write-beside-protected": ALLOWED,
    "reach-loopback": ALLOWED,
    "connect-agent-socket": NAMESPACES_ONLY,
    "connect-core-socket": NAMESPACES_ONLY,
    "serve-own-socket": NAMESPACES_ONLY,
    "pipe-programs": ALLOWED,
    "run-python": ALLOWED,
    "run-git": ALLOWED,
    "use-shared-memory": NAMESPACES_ONLY,
    "open-terminal": NAMESPACES_ONLY,
    "use-devices": ALLOWED,
    "write-to-standard-error-by-name": ALLOWED,
    "know-own-name": ALLOWED,
    "know-resolver": ALLOWED,
    "trust-authorities": ALLOWED,
}
