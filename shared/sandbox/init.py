"""The wrapper's two small duties: being process 1 inside, and passing signals on from outside."""

from __future__ import annotations

import os
import signal

_PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def pass_signals_to(pid: int) -> None:
    """Whatever would end us is handed to that process instead."""
    for number in _PASSED:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))


def act_as_init(command: list[str]) -> int:
    """Run a command as process 1 has to: passing signals on, reaping orphans.

    Returns:
        Its exit code, 128 and the number of the signal that ended it, or 127 when it cannot be executed.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED)
    child = os.fork()
    if child == 0:
        for number in (*_PASSED, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        try:
            os.execvp(command[0], command)  # noqa: S606 - a command is what the wrapper is for
        except OSError as exc:
            os.write(2, os.fsencode(f"{command[0]}: {exc.strerror}\n"))
            os._exit(127)
    pass_signals_to(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
