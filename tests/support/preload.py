"""A parent that has imported a unit and forks it: a start then costs a tenth of a new interpreter's.

For tests that kill a unit again and again. What runs is the unit's own `main`, in a process of its own, on
the socket and with the environment that it would get anyway; only the imports are shared.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

STOP_SECONDS = 15.0


class Forked:
    """A forked process, as `subprocess.Popen` would show it."""

    def __init__(self, parent: Preloaded, pid: int) -> None:
        self.pid = pid
        self._parent = parent
        self._handle = os.pidfd_open(pid)
        self._code: int | None = None

    def send_signal(self, sig: int, /) -> None:
        signal.pidfd_send_signal(self._handle, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; answers the exit code.

        Raises:
            subprocess.TimeoutExpired: when it has not ended in time.
        """
        if self._code is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([], timeout or 0)
            self._code = self._parent.ask({"wait": self.pid})["code"]
            os.close(self._handle)
        return self._code


class Preloaded:
    """The parent; it ends with the test, and all that it forked with it.

    Args:
        module: whose `main` is forked; imported once.
        listener: the socket that all of them get.
        cwd: where they run.
    """

    def __init__(self, module: str, listener: socket.socket, cwd: Path) -> None:
        descriptor = listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, module],
            pass_fds=[descriptor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._descriptor = descriptor
        self._cwd = cwd
        self.ask({})

    def start(self, env: dict[str, str], log: Path) -> Forked:
        """Fork one; it may not be ready yet."""
        env = {**env, "HIVE_LISTEN_FD": str(self._descriptor)}
        order = {"env": env, "log": str(log), "cwd": str(self._cwd)}
        return Forked(self, self.ask(order)["pid"])

    def ask(self, order: dict[str, Any]) -> Any:
        """Have something done and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and what it forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)
        self._process.stdout.close()


def _fork(module: Any, order: dict[str, Any]) -> int:
    if pid := os.fork():
        return pid
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    code = 1
    try:
        module.main()
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(name: str) -> None:
    """Do what comes on stdin, a JSON object a line, until its end."""
    module = importlib.import_module(name)
    running: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        answer: dict[str, int] = {}
        if "wait" in order:
            answer["code"] = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
            running.discard(order["wait"])
        elif order:
            answer["pid"] = _fork(module, order)
            running.add(answer["pid"])
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer goes to the test
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _serve(sys.argv[1])
