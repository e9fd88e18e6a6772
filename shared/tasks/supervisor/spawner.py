"""The process that task supervisors are forked from: small, one thread, everything imported that they need.

It belongs to one daemon and ends with it, as its socket then ends; the supervisors go on. A request is one
datagram: the sandbox's policy, or a blank for none, and three descriptors: the supervisor's control
connection, on which the launch follows as a line, the task's lock, and the directory of its output.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from typing import Final, NoReturn

from shared.errors import HiveError
from shared.sandbox import Policy, Prepared, detect, prepare
from shared.tasks.supervisor.failures import explain_fork
from shared.tasks.supervisor.kernel import PR_SET_DUMPABLE, PR_SET_NAME, prctl
from shared.tasks.supervisor.life import live
from shared.tasks.supervisor.memory import offer_self
from shared.tasks.supervisor.protocol import NO_POLICY

DESCRIPTORS: Final = 3
_REQUEST_BYTES: Final = 1 << 17


class Spawner:
    """Serves one daemon, until that is gone."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._policy = NO_POLICY
        self._prepared: Prepared | None = None

    def serve(self) -> None:
        """Fork a supervisor a request."""
        prctl(PR_SET_NAME, b"hive-tasks")
        prctl(PR_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError):
            offer_self()
        # Tried once, with children of its own, before those are ignored.
        detect()
        # The kernel then buries the supervisors that end before this process does.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.collect()
        gc.freeze()
        while True:
            try:
                request, descriptors, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, DESCRIPTORS)
            except ConnectionResetError:
                return
            if not request:
                return
            connection = descriptors[0]
            try:
                self._fork(request, *descriptors)
            except HiveError as exc:
                _refuse(connection, exc.message)
            except OSError as exc:
                _refuse(connection, explain_fork(exc.errno or 0))
            for descriptor in descriptors:
                os.close(descriptor)

    def _fork(self, policy: bytes, connection: int, _lock: int, output: int) -> None:
        prepared = self._prepare(policy)
        if os.fork() == 0:
            self._requests.close()
            _become(connection, output, prepared)

    def _prepare(self, policy: bytes) -> Prepared | None:
        """The policy thought through: the one before serves as long as it is the same and still true."""
        if policy == NO_POLICY:
            return None
        if policy != self._policy or self._prepared is None or not self._prepared.is_current():
            self._prepared = prepare(Policy.from_json(os.fsdecode(policy)), detect())
            self._policy = policy
        return self._prepared


def _become(connection: int, output: int, prepared: Prepared | None) -> NoReturn:
    try:
        live(socket.socket(fileno=connection), output, prepared)
    except Exception:  # noqa: BLE001 (a fault of ours, to be seen in the daemon's log)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _refuse(connection: int, reason: str) -> None:
    with socket.socket(fileno=os.dup(connection)) as daemon:
        daemon.setblocking(False)
        daemon.send(json.dumps({"event": "refused", "reason": reason}).encode() + b"\n")
