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
import select
import signal
import socket
import sys
from typing import Final, NoReturn

from shared.errors import HiveError
from shared.prctl import PR_SET_DUMPABLE, PR_SET_NAME, prctl
from shared.sandbox import Policy, Prepared, detect, prepare
from shared.tasks.supervisor.cgroup import find_delegated
from shared.tasks.supervisor.failures import explain_fork
from shared.tasks.supervisor.life import DESCRIPTORS, stand_by
from shared.tasks.supervisor.memory import offer_self
from shared.tasks.supervisor.protocol import NO_POLICY

_REQUEST_BYTES: Final = 1 << 17
_REFUSE_SECONDS: Final = 1.0


class Spawner:
    """Serves one daemon, until that is gone."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._policy = NO_POLICY
        self._prepared: Prepared | None = None
        # A supervisor that is ready for a task under that policy.
        self._standby: socket.socket | None = None

    def serve(self) -> None:
        """Give each request a supervisor. One is always ready for the next, as far as time allows."""
        prctl(PR_SET_NAME, b"hive-tasks")
        prctl(PR_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError):
            offer_self()
        # Tried once, with children of its own, before those are ignored.
        detect()
        find_delegated()
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
            try:
                self._give(request, descriptors)
            except HiveError as exc:
                _refuse(descriptors[0], exc.message)
            except OSError as exc:
                _refuse(descriptors[0], explain_fork(exc.errno or 0))
            for descriptor in descriptors:
                os.close(descriptor)
            if self._standby is None and not select.select([self._requests], [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    self._standby = self._fork()

    def _give(self, policy: bytes, descriptors: list[int]) -> None:
        """Give a task to the supervisor that stands by, or to a new one."""
        self._prepare(policy)
        standby, self._standby = self._standby, None
        if standby is not None:
            with standby, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(standby, [b"1"], descriptors)
                return
        with self._fork() as fresh:
            socket.send_fds(fresh, [b"1"], descriptors)

    def _fork(self) -> socket.socket:
        """A new supervisor, which gets ready."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = os.fork()
            except OSError:
                ours.close()
                raise
            if pid == 0:
                ours.close()
                self._requests.close()
                _become(theirs, self._prepared)
        return ours

    def _prepare(self, policy: bytes) -> None:
        """Think the policy through: the one before serves as long as it is the same and still true."""
        if policy == self._policy and (self._prepared is None or self._prepared.is_current()):
            return
        if self._standby is not None:
            self._standby.close()
            self._standby = None
        self._prepared = (
            None if policy == NO_POLICY else prepare(Policy.from_json(os.fsdecode(policy)), detect())
        )
        self._policy = policy


def _become(spawner: socket.socket, prepared: Prepared | None) -> NoReturn:
    try:
        stand_by(spawner, prepared)
    except Exception:  # noqa: BLE001 (a fault of ours, to be seen in the daemon's log)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _refuse(connection: int, reason: str) -> None:
    """Tell the daemon why it gets no supervisor.

    What it asks for is taken first: were that unread, or still on its way, the daemon would hear of the
    hang-up alone.
    """
    with socket.socket(fileno=os.dup(connection)) as daemon, contextlib.suppress(OSError):
        daemon.settimeout(_REFUSE_SECONDS)
        while (chunk := daemon.recv(1 << 16)) and b"\n" not in chunk:
            continue
        daemon.sendall(json.dumps({"event": "refused", "reason": reason}).encode() + b"\n")
