"""Starts a program as a unit's process, and what is known of a process once it runs.

Must be called on the main thread: PR_SET_PDEATHSIG fires when the thread that started a process ends.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread

from services.hivectl.supervisor.log_file import LogFile
from shared.errors import Misconfigured
from shared.wire.lifecycle import ExitStatus

_LAUNCHER = Path(__file__).with_name("launch.py")
_WAITERS = math.inf


@dataclass(frozen=True)
class UnitSpec:
    """What it takes to start a unit. `inherited_fd` is open in it under the same number.

    Exactly one of `argv` and `module` is given: a program, or a module of ours to be run by this interpreter.
    """

    name: str
    env: Mapping[str, str]
    log: LogFile
    cwd: Path
    argv: tuple[str, ...] = ()
    module: str = ""
    inherited_fd: int | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The command line. No module of ours is looked for in the working directory (`-P`)."""
        return self.argv or (sys.executable, "-P", "-m", self.module)


@dataclass
class Child:
    """A running process that is a child of this one. Exactly one task may `wait` for it.

    Args:
        reap: waits for it to end, blocking, and returns what it ended with as `subprocess` does.
        log_start: how long its log was before it wrote.
    """

    name: str
    pid: int
    log: LogFile
    log_start: int
    reap: Callable[[], int]
    ended: anyio.Event = field(default_factory=anyio.Event)
    status: ExitStatus | None = None
    _pidfd: int | None = None

    def __post_init__(self) -> None:
        self._pidfd = _open_pidfd(self.pid)

    async def wait(self) -> ExitStatus:
        """Wait for its end, and reap it."""
        if self._pidfd is None:
            limiter = anyio.CapacityLimiter(_WAITERS)
            code = await anyio.to_thread.run_sync(self.reap, abandon_on_cancel=True, limiter=limiter)
        else:
            await anyio.wait_readable(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
            code = self.reap()
        self.status = ExitStatus(signal=-code) if code < 0 else ExitStatus(code=code)
        self.ended.set()
        return self.status

    def terminate(self) -> None:
        """Ask it to end; what it started is its own to end."""
        if self.status is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and what stayed in its process group, at once. Nothing happens once it was reaped."""
        if self.status is None:
            os.killpg(self.pid, signal.SIGKILL)

    def last_lines(self, *, limit_bytes: int = 1500) -> str:
        """The end of what this life of the unit logged."""
        return self.log.tail(start=self.log_start, limit_bytes=limit_bytes)


def spawn(spec: UnitSpec) -> Child:
    """Start a unit in a process group of its own, so that Ctrl-C reaches only the supervisor.

    Raises:
        Misconfigured: when the program or the log file cannot be opened.
    """
    try:
        with open_log(spec) as log:
            log_start = os.fstat(log.fileno()).st_size
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *spec.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=spec.cwd,
                env=dict(spec.env),
                pass_fds=() if spec.inherited_fd is None else (spec.inherited_fd,),
                process_group=0,
            )
    except OSError as exc:
        raise Misconfigured(f"{spec.name} cannot be started: {exc.strerror} ({exc.filename})") from exc
    return Child(spec.name, process.pid, spec.log, log_start, reap=process.wait)


def open_log(spec: UnitSpec) -> IO[bytes]:
    """The unit's log, rotated if it is due."""
    spec.log.rotate()
    return spec.log.open()


def _open_pidfd(pid: int) -> int | None:
    """A descriptor that turns readable at the process's end; None where the kernel has none (before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
