"""Finding out what this machine offers, by trying it: no setting says it all."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from shared.sandbox import kernel, landlock
from shared.sandbox.enter import prepare, run_inside, wait_for
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.kinds import Isolation, Kind
from shared.sandbox.policy import Policy

_UNSCOPED = "signals to the hive's processes"
_ABSTRACT = "abstract unix sockets"
_WITHOUT_NAMESPACES = ("names and modes of files", "names of other processes")


def choose(kind: Kind) -> Isolation:
    """That kind, untried; what does not work says so when a process is to be started."""
    abi = kernel.landlock_abi()
    scoped = abi >= landlock.SCOPED_ABI
    if kind is Kind.NAMESPACES:
        return Isolation(kind, "", abi, () if scoped else (_ABSTRACT,))
    if kind is Kind.LANDLOCK:
        return Isolation(kind, "", abi, _WITHOUT_NAMESPACES if scoped else (_UNSCOPED, *_WITHOUT_NAMESPACES))
    return Isolation(kind, "", abi)


@functools.cache
def detect() -> Isolation:
    """What sandboxed processes can be put into here; tried once, in some 30 ms.

    Only for a process of one thread, or by way of `python -m shared.sandbox --detect`.
    """
    if not kernel.KNOWN_MACHINE:
        return Isolation(Kind.NONE, f"this machine ({kernel.MACHINE}) is not known to the sandbox")
    best = choose(Kind.NAMESPACES)
    abi = best.landlock_abi
    refusal = _try(best)
    if refusal is None:
        return best
    reason = f"user namespaces are refused ({_explain(refusal)})"
    if abi < landlock.MIN_ABI:
        offered = f"version {abi}" if abi else "none"
        return Isolation(
            Kind.NONE, f"{reason}, and Landlock {landlock.MIN_ABI} or later is needed, here is {offered}", abi
        )
    second = replace(choose(Kind.LANDLOCK), reason=reason)
    refusal = _try(second)
    return (
        second
        if refusal is None
        else Isolation(Kind.NONE, f"{reason}, and Landlock as well ({refusal})", abi)
    )


def _try(isolation: Isolation) -> SandboxFailed | None:
    """Set one up around nothing; what went wrong, if something did."""
    place = Path(tempfile.mkdtemp(prefix="hive-sandbox-"))
    try:
        for name in ("state", "run", "tmp"):
            (place / name).mkdir()
        policy = Policy(
            home=str(place),
            writable=(str(place / "state"),),
            readable=(),
            sockets=(str(place / "run" / "agent.sock"),),
            temporary=str(place / "tmp"),
        )
        pid = run_inside(prepare(policy, isolation), lambda: 0)
        wait_for(pid)
    except SandboxFailed as exc:
        return exc
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return None


# What says no, where the setting can be read, and what to do about it.
_SETTINGS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=1",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=0"),
)


def _explain(refusal: SandboxFailed) -> str:
    for path, value, setting in _SETTINGS:
        try:
            if Path(path).read_text(encoding="utf-8").strip() == value:
                return f"sysctl {setting}"
        except OSError:
            continue
    return f"{refusal.step}: {os.strerror(refusal.errno)}"
