"""Starts units as processes. The only module that does, so that a parent which forks can take its place.

Must be called on the main thread: PR_SET_PDEATHSIG fires when the thread that started a process ends.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from services.hivectl.supervisor.log_file import LogFile
from shared.errors import Misconfigured
from shared.wire.lifecycle import ExitStatus

_LAUNCHER = Path(__file__).with_name("launch.py")
_WAITERS = math.inf


@dataclass(frozen=True)
class UnitSpec:
    """What it takes to start a unit. `listen_fd` is inherited under the same number."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: LogFile
    cwd: Path
    listen_fd: int | None = None


def unit_argv(module: str) -> tuple[str, ...]:
    """The command of one of our units: this interpreter, and no import from the working directory."""
    return (sys.executable, "-P", "-m", module)


@dataclass
class Child:
    """A running process that this one started. Exactly one task may `wait` for it."""

    name: str
    process: subprocess.Popen[bytes]
    log: LogFile
    log_start: int
    pidfd: int | None
    ended: anyio.Event = field(default_factory=anyio.Event)
    status: ExitStatus | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait(self) -> ExitStatus:
        """Wait for its end, and reap it."""
        if self.pidfd is None:
            limiter = anyio.CapacityLimiter(_WAITERS)
            await anyio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True, limiter=limiter)
        else:
            await anyio.wait_readable(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = None
        code = self.process.wait()
        self.status = ExitStatus(signal=-code) if code < 0 else ExitStatus(code=code)
        self.ended.set()
        return self.status

    def terminate(self) -> None:
        """Ask it to end; what it started is its own to end."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and what stayed in its process group, at once. Nothing happens once it was reaped."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def last_lines(self, *, limit_bytes: int = 1500) -> str:
        """The end of what this life of the unit logged."""
        return self.log.tail(start=self.log_start, limit_bytes=limit_bytes)


def spawn(spec: UnitSpec) -> Child:
    """Start a unit in a process group of its own, so that Ctrl-C reaches only the supervisor.

    Raises:
        Misconfigured: when the program or the log file cannot be opened.
    """
    try:
        spec.log.rotate()
        with spec.log.open() as log:
            log_start = os.fstat(log.fileno()).st_size
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *spec.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=spec.cwd,
                env=dict(spec.env),
                pass_fds=() if spec.listen_fd is None else (spec.listen_fd,),
                process_group=0,
            )
    except OSError as exc:
        raise Misconfigured(f"{spec.name} cannot be started: {exc.strerror} ({exc.filename})") from exc
    return Child(spec.name, process, spec.log, log_start, _open_pidfd(process.pid))


def _open_pidfd(pid: int) -> int | None:
    """A descriptor that turns readable at the process's end; None where the kernel has none (before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
