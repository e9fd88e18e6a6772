"""What runs on the task's side of the fork: in a pid namespace a small init, then the task itself.

Both tell the supervisor over the status pipe: a line `E <what> <errno>` when the task could not be started,
and from the init `X <wait status>` when the task's first process has ended. The pipe closes on exec.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
from typing import Final, NoReturn, cast

from shared.prctl import PR_SET_PDEATHSIG, prctl
from shared.tasks.model import Launch

EXIT_NOT_STARTED: Final = 127
_UMASK: Final = 0o022
_ABOVE: Final = 16
_STDERR: Final = 2
_LIMITS: Final = {
    "memory_bytes": resource.RLIMIT_DATA,
    "cpu_seconds": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
}


def wait_and_become(go: int, stdio: tuple[int, int, int], status: int, *, as_init: bool) -> NoReturn:
    """Wait for a launch on `go`, then be the task; with `as_init` the init that starts it and buries."""
    try:
        _reset_signals()
        keep_only(*stdio, status, go)
        _die_with_parent()
        with open(go, "rb") as launches:
            text = launches.read()
        if not text:
            # The supervisor was not needed.
            os._exit(0)
        launch = cast("Launch", json.loads(text))
        if not launch["stdin"]:
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.close(stdio[0])
            stdio = (nothing, stdio[1], stdio[2])
        if not as_init:
            _exec(launch, stdio, status)
        first = _start(launch, stdio, status)
        for descriptor in stdio:
            os.close(descriptor)
        _reap_all(first, status)
    except OSError as exc:
        _tell(status, f"E start {exc.errno}\n")
    except BaseException:  # noqa: BLE001 (there is nothing to return to)
        _tell(status, "E start 0\n")
    os._exit(EXIT_NOT_STARTED)


def _start(launch: Launch, stdio: tuple[int, int, int], status: int) -> int:
    """Start the first process; returns its id, or that of one that has told what was wrong."""
    if launch["limits"] or min(stdio) <= _STDERR:
        # They are for it alone: this process could not make one under them.
        first = os.fork()
        if first == 0:
            _exec(launch, stdio, status)
        return first
    what = "cwd"
    try:
        os.umask(_UMASK)
        os.chdir(launch["cwd"])
        what = "exec"
        # As vfork does it: this process's memory is not copied for what only executes a program.
        return os.posix_spawn(
            launch["argv"][0],
            launch["argv"],
            launch["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)],
            setsid=True,
        )
    except OSError as exc:
        _tell(status, f"E {what} {exc.errno}\n")
    except ValueError:
        _tell(status, f"E {what} 0\n")
    os._exit(EXIT_NOT_STARTED)


def keep_only(*descriptors: int) -> None:
    """Close every descriptor but these: nothing of the supervisor's or the daemon's reaches a task."""
    low = 0
    for descriptor in sorted(set(descriptors)):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 1 << 30)


def _exec(launch: Launch, stdio: tuple[int, int, int], status: int) -> NoReturn:
    what = "start"
    try:
        os.setsid()
        # They may lie on 0 to 2 themselves, in another order.
        status, *above = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in (status, *stdio))
        for number, descriptor in enumerate(above):
            os.dup2(descriptor, number)
        os.umask(_UMASK)
        what = "limit"
        for name, value in launch["limits"].items():
            _limit(_LIMITS[name], value)
        what = "cwd"
        os.chdir(launch["cwd"])
        what = "exec"
        os.execve(launch["argv"][0], launch["argv"], launch["env"])  # noqa: S606 (what it is for)
    except OSError as exc:
        _tell(status, f"E {what} {exc.errno}\n")
    except ValueError:
        _tell(status, f"E {what} 0\n")
    os._exit(EXIT_NOT_STARTED)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (most, most))


def _reset_signals() -> None:
    """Undo what Python and the supervisor have set, so that a task meets signals as any process does."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _die_with_parent() -> None:
    """Have the kernel end this process when the supervisor is gone; an init, and so all in its namespace."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _reap_all(first: int, status: int) -> NoReturn:
    while True:
        try:
            pid, wait_status = os.waitpid(-1, 0)
        except ChildProcessError:
            # All have ended, and that need not wait until the kernel has taken down the namespaces, which it
            # does in this process's exit and which takes it milliseconds.
            _tell(status, "G\n")
            os._exit(0)
        if pid == first:
            _tell(status, f"X {wait_status}\n")


def _tell(status: int, line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(status, line.encode())
