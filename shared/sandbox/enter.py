"""Forking into the sandbox. For a process of one thread; the child is inside, or it never was.

What holds a process inside, in order: its root and ids (or Landlock), no capability, no new privilege, the
filter of calls, no descriptor but those it is given.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from shared.prctl import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, prctl
from shared.sandbox import kernel, landlock, namespaces, syscalls
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.kinds import Isolation, Kind
from shared.sandbox.namespaces import doing
from shared.sandbox.plan import Plan, build_plan
from shared.sandbox.policy import Policy

_LAST_DESCRIPTOR = 0xFFFF_FFFF


@dataclass(frozen=True)
class Prepared:
    """A policy thought through, for any number of processes; `is_current` says whether to do it again."""

    policy: Policy
    isolation: Isolation
    plan: Plan
    program: namespaces.Program

    @property
    def temporary(self) -> str:
        """Where the temporary directory is inside (`TMPDIR`)."""
        return "/tmp" if self.isolation.kind is Kind.NAMESPACES else self.plan.temporary  # noqa: S108

    def is_current(self) -> bool:
        """Whether the directories that the plan was made from still have the entries they had."""
        return self.plan.is_current()


def prepare(policy: Policy, isolation: Isolation) -> Prepared:
    """Look at the policy's paths once (some 20 ms); what comes of it is good for many processes.

    Raises:
        SandboxFailed: when the state directory, the sockets' or the temporary directory is missing.
    """
    syscalls.build_filter(namespaces=isolation.kind is Kind.NAMESPACES)
    plan = build_plan(policy)
    return Prepared(policy, isolation, plan, namespaces.write_program(plan))


def fork_into(prepared: Prepared, *, keep: Iterable[int] = ()) -> int:
    """Like `os.fork`, but the child is in the sandbox.

    Of its descriptors it has 0, 1, 2 and `keep`: directories must not be among them. With namespaces it is
    process 1 of its own, so it must reap orphans, and all its processes die with it. It is not dumpable until
    it executes a program.

    Returns:
        0 in the child, its process id in the parent, once the sandbox stands.

    Raises:
        SandboxFailed: in the parent, when the sandbox could not be set up; the child is gone then.
    """
    flags = namespaces.FLAGS if prepared.isolation.kind is Kind.NAMESPACES else 0
    ids = os.geteuid(), os.getegid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        with doing("make the namespaces" if flags else "fork"):
            pid = _clone(flags)
        if pid == 0:
            _set_up(prepared, ids, (*keep, writing), writing)
            return 0
    finally:
        os.close(writing)
    try:
        report = _read_all(reading)
    finally:
        os.close(reading)
    if report != b"ok":
        # No child to wait for: the caller has the kernel bury its children.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        step, _, error = report.rpartition(b"\0")
        raise SandboxFailed(os.fsdecode(step) or "the process that sets it up was ended", int(error or 0))
    return pid


def _clone(flags: int) -> int:
    kernel.python.PyOS_BeforeFork()
    pid = -1
    try:
        pid = kernel.clone(flags)
    finally:
        if pid == 0:
            kernel.python.PyOS_AfterFork_Child()
        else:
            kernel.python.PyOS_AfterFork_Parent()
    return pid


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 4096):
        parts.append(part)
    return b"".join(parts)


def _set_up(prepared: Prepared, ids: tuple[int, int], keep: Sequence[int], report: int) -> None:
    """Everything in the child; reports how it went and, if it did not, ends."""
    try:
        _confine(prepared, ids, keep)
        answer = b"ok"
    except SandboxFailed as exc:
        answer = os.fsencode(f"{exc.step}\0{exc.errno}")
    except BaseException as exc:  # noqa: BLE001 - whatever it was, nothing may run half inside
        answer = os.fsencode(f"{type(exc).__name__}: {exc}\0{getattr(exc, 'errno', None) or 0}")
    try:
        os.write(report, answer)
    finally:
        if answer != b"ok":
            os._exit(127)


def _confine(prepared: Prepared, ids: tuple[int, int], keep: Sequence[int]) -> None:
    isolation = prepared.isolation
    if isolation.kind is Kind.NONE:
        _close_all_but(keep)
        return
    inside = isolation.kind is Kind.NAMESPACES
    if inside:
        namespaces.keep_ids(*ids)
        namespaces.build_root(prepared.program)
    prctl(PR_SET_DUMPABLE, 0)
    kernel.join_new_session_keyring()
    with doing("drop privileges"):
        kernel.drop_capabilities()
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    with doing("restrict by Landlock"):
        if inside:
            landlock.restrict_scope(isolation.landlock_abi)
        else:
            landlock.restrict_to(prepared.plan, isolation.landlock_abi)
    with doing("filter system calls"):
        syscalls.restrict_calls(namespaces=inside)
    _close_all_but(keep)


def _close_all_but(keep: Sequence[int]) -> None:
    first = 3
    with doing("close descriptors"):
        for kept in sorted(set(keep)):
            if kept > first:
                kernel.close_range(first, kept - 1)
            first = max(first, kept + 1)
        kernel.close_range(first, _LAST_DESCRIPTOR)


def run_inside(prepared: Prepared, work: Callable[[], int], *, keep: Iterable[int] = ()) -> int:
    """Fork into the sandbox, do `work` there, exit with what it returns; the child's process id."""
    pid = fork_into(prepared, keep=keep)
    if pid == 0:
        _exit_with(work)
    return pid


def _exit_with(work: Callable[[], int]) -> NoReturn:
    code = 126
    try:
        code = work()
    finally:
        os._exit(code)


def wait_for(pid: int) -> int:
    """The exit code of a child, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
