"""The daemon's side of the spawner: started when the first task is, ended when none was for a while."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import anyio

from shared.errors import Unavailable
from shared.sandbox import Policy
from shared.tasks.supervisor.protocol import NO_POLICY

# `shared` is imported from where the daemon itself has it.
_IMPORT_ROOT: Final = str(Path(__file__).resolve().parents[2])
_IDLE_SECONDS: Final = 60.0
_ENVIRONMENT: Final = ("LANG", "LC_ALL", "LC_CTYPE")


class Spawner:
    """Starts supervisors. Only for the event loop's thread."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_needed = False
        self._policy: Policy | None = None
        self._encoded = NO_POLICY

    def launch(self, lock: int, output: int, policy: Policy | None) -> socket.socket:
        """Have a supervisor started; returns its control connection, for the launch to follow.

        Args:
            lock: of the task's record, which the supervisor holds from then on.
            output: the directory of its output.
            policy: its sandbox; None for none.

        Raises:
            Unavailable: when the machine has no room for another process.
        """
        self._is_needed = True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._send(self._encode(policy), [theirs.fileno(), lock, output])
            except BaseException:
                ours.close()
                raise
        return ours

    async def run(self) -> None:
        """End the process whenever it was not needed for a while; the next task starts another."""
        while True:
            await anyio.sleep(_IDLE_SECONDS)
            if not self._is_needed:
                self.close()
            self._is_needed = False

    def close(self) -> None:
        """End the spawner; supervisors go on."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            self._process = None

    def _encode(self, policy: Policy | None) -> bytes:
        """A policy as it travels; the one before is mostly the same."""
        if policy is not self._policy:
            self._policy = policy
            self._encoded = NO_POLICY if policy is None else os.fsencode(policy.to_json())
        return self._encoded

    def _send(self, request: bytes, descriptors: list[int]) -> None:
        if self._requests is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._requests, [request], descriptors)
                return
            # It was killed: another one takes its place.
            self.close()
        try:
            self._start()
            socket.send_fds(self._open_requests(), [request], descriptors)
        except OSError as exc:
            raise Unavailable(
                f"the process that starts tasks cannot be started: {exc.strerror}; end some, or try later"
            ) from exc

    def _open_requests(self) -> socket.socket:
        if self._requests is None:
            raise Unavailable("the process that starts tasks is not running")
        return self._requests

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "shared.tasks.supervisor", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    # Its output is the daemon's log: a fault of ours is seen there.
                    stdin=subprocess.DEVNULL,
                    cwd="/",
                    env=_build_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._requests = ours


def _build_environment() -> dict[str, str]:
    """Nothing of the daemon's own but its locale: no setting and no path to a secret."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {"PATH": os.defpath, "PYTHONPATH": _IMPORT_ROOT, "PYTHONDONTWRITEBYTECODE": "1", **kept}
