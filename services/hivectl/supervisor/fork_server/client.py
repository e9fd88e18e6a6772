"""The supervisor's side of the fork server: keeps it running, and has it fork units.

Whatever is wrong with it, `fork` answers None in bounded time, and the unit is started as a program instead.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import structlog

from services.hivectl.supervisor.fork_server.protocol import MAX_PACKET_BYTES, ForkRequest, decode_answer
from services.hivectl.supervisor.keeper import Keeper, UnitExit
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.spawn import Child, UnitSpec, open_log, spawn

NAME = "fork-server"
MODULE = "services.hivectl.supervisor.fork_server"
# Importing takes a second on an idle machine, but many hives start on a busy one.
READY_SECONDS = 20.0
ANSWER_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class ForkServer:
    """One fork server, started anew when it ends and when the code on disk is no longer what it imported.

    Args:
        log: where it logs; units have their own.
        env: its environment; units get another.
        cwd: its working directory.
        adopt: called with each new process before that does anything.
        hold: what keeps others from reaping a process before it was adopted.
    """

    def __init__(
        self,
        log: LogFile,
        env: Mapping[str, str],
        cwd: Path,
        *,
        adopt: Callable[[Child], None],
        hold: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._spec = UnitSpec(name=NAME, env=env, log=log, cwd=cwd)
        self._adopt = adopt
        self._hold = hold
        self._keeper = Keeper(NAME, launch=self._launch, probe=self._probe, listener=self, persistent=True)
        self._link: socket.socket | None = None
        self._is_ready = False
        self._is_renewed = False
        self._settled = anyio.Event()
        self._turn = anyio.Lock()

    async def run(self, tasks: anyio.abc.TaskGroup) -> None:
        """Start it in `tasks`, and wait until it is ready or has failed to be."""
        await self._keeper.start(tasks, timeout_seconds=READY_SECONDS)

    async def stop(self) -> None:
        """End it; it has nothing to finish."""
        await self._keeper.stop(grace_seconds=0)
        self._replace_link(None)

    async def fork(self, spec: UnitSpec) -> Child | None:
        """A new process that is going to be the unit, already adopted; None when there is none to be had."""
        packet = ForkRequest(
            module=spec.module,
            title=f"{spec.name}: {spec.module}",
            env=spec.env,
            cwd=str(spec.cwd),
            listen_fd=spec.inherited_fd,
        ).encode()
        if len(packet) > MAX_PACKET_BYTES:
            return None
        async with self._turn:
            for _ in ("as it is", "renewed"):
                with anyio.move_on_after(READY_SECONDS):
                    await self._settled.wait()
                if not self._is_ready or self._link is None:
                    return None
                try:
                    with self._hold():
                        answer = await self._request(self._link, spec, packet)
                except OSError as exc:
                    # Nothing was asked yet: no log, or no descriptor left. `spawn` meets the same, and tells.
                    _log.warning("unit_not_forked", name=spec.name, reason=exc.strerror)
                    return None
                if isinstance(answer, Child):
                    return answer
                _log.warning("unit_not_forked", name=spec.name, **answer)
                self._renew()
                if "stale" not in answer:
                    return None
        return None

    async def _request(self, link: socket.socket, spec: UnitSpec, packet: bytes) -> Child | dict[str, Any]:
        """The process, or why there is none."""
        read_fd, write_fd = os.pipe()
        with os.fdopen(write_fd, "wb", buffering=0) as word:
            # Opened here and not there: a unit inherits nothing that is the server's.
            stdin_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(read_fd, "rb") as go, os.fdopen(stdin_fd, "rb") as stdin, open_log(spec) as log:
                log_start = os.fstat(log.fileno()).st_size
                descriptors = [go.fileno(), stdin.fileno(), log.fileno()]
                descriptors += [] if spec.inherited_fd is None else [spec.inherited_fd]
                try:
                    socket.send_fds(link, [packet], descriptors)
                except OSError as exc:
                    return {"refused": exc.strerror}
            answer = await _receive(link)
            if "pid" not in answer:
                return answer
            pid = int(answer["pid"])
            child = Child(spec.name, pid, spec.log, log_start, reap=partial(_reap, pid))
            self._adopt(child)
            # Until here the process waits; had anything failed, the end of the pipe would have ended it.
            # One that was killed meanwhile is seen to end like any other.
            with suppress(BrokenPipeError):
                word.write(b"!")
            return child

    async def _launch(self) -> Child:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._replace_link(ours)
        with theirs:
            argv = (sys.executable, "-P", "-m", MODULE, str(theirs.fileno()))
            child = spawn(replace(self._spec, argv=argv, inherited_fd=theirs.fileno()))
        self._adopt(child)
        self._is_renewed = False
        if self._settled.is_set():
            self._settled = anyio.Event()
        return child

    async def _probe(self) -> None:
        """Returns when it has said that it is ready."""
        if self._link is not None:
            await anyio.wait_readable(self._link)
            if decode_answer(self._link.recv(MAX_PACKET_BYTES)).get("ready"):
                return
        await anyio.sleep_forever()

    def unit_ready(self, name: str, seconds: float) -> None:
        """Part of `KeeperListener`."""
        _log.info("unit_ready", name=name, seconds=round(seconds, 3))
        self._is_ready = True
        self._settled.set()

    def unit_exited(self, name: str, exit_: UnitExit) -> None:
        """Part of `KeeperListener`."""
        _log.warning("unit_exited", name=name, **exit_.status.model_dump(), restart_in=exit_.restart_in)
        self._is_ready = False
        if not self._is_renewed:
            self._settled.set()

    def _renew(self) -> None:
        """Have the keeper start another one; who asks meanwhile waits for it."""
        self._is_ready = False
        self._is_renewed = True
        self._settled = anyio.Event()
        self._keeper.kill_now()

    def _replace_link(self, link: socket.socket | None) -> None:
        if self._link is not None:
            self._link.close()
        self._link = link


async def _receive(link: socket.socket) -> dict[str, Any]:
    with anyio.move_on_after(ANSWER_SECONDS):
        await anyio.wait_readable(link)
        try:
            return decode_answer(link.recv(MAX_PACKET_BYTES)) or {"refused": "it has ended"}
        except OSError as exc:
            return {"refused": exc.strerror}
    return {"refused": f"no answer within {ANSWER_SECONDS:.0f} s"}


def _reap(pid: int) -> int:
    """Wait for a child that `subprocess` does not know; its end as `subprocess` would give it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
