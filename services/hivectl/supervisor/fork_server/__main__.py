"""The fork server: `-m services.hivectl.supervisor.fork_server SOCKET_FD`. One thread, no loop, no secrets.

A unit is a grandchild: its parent between ends at once, and the supervisor, a subreaper (prctl(2)), inherits
it. So the supervisor waits for it as for any child of its own, and no unit ends with this process.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

import setproctitle

from services.hivectl.supervisor.fork_server.child import become
from services.hivectl.supervisor.fork_server.code import CodeOnDisk, preload
from services.hivectl.supervisor.fork_server.protocol import (
    MAX_DESCRIPTORS,
    MAX_PACKET_BYTES,
    ForkRequest,
    encode_answer,
)
from shared.runtime.harden import harden_process


def main() -> None:
    """Import, then answer requests until the supervisor is gone. In a new process: be the unit."""
    supervisor = os.getppid()
    harden_process()
    code = preload()
    # Kept out of every collection: walking the shared objects would give each process copies of their pages.
    gc.collect()
    gc.disable()
    gc.freeze()
    setproctitle.setproctitle("hivectl fork server")
    with socket.socket(fileno=int(sys.argv[1])) as link:
        link.set_inheritable(False)
        link.send(encode_answer({"ready": True}))
        unit = _serve(link, code)
    if unit is not None:
        become(*unit, supervisor)


def _serve(link: socket.socket, code: CodeOnDisk) -> tuple[ForkRequest, list[int]] | None:
    """Answer requests; returns None when the supervisor is gone, and in a new process what it is to be."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(link, MAX_PACKET_BYTES, MAX_DESCRIPTORS)
        if not packet:
            return None
        answer = _fork_if_sound(code)
        if answer is None:
            return ForkRequest.decode(packet), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(encode_answer(answer))


def _fork_if_sound(code: CodeOnDisk) -> dict[str, Any] | None:
    """The answer to a request; None in the new process."""
    if (changed := code.find_changed()) is not None:
        return {"stale": str(changed)}
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - only their number counts
        # A lock that another thread holds now would stay locked in the new process for ever.
        return {"refused": "a library started a thread"}
    try:
        pid = _fork_twice()
    except OSError as exc:
        return {"refused": exc.strerror}
    return {"pid": pid} if pid else None


def _fork_twice() -> int:
    """The number of a new process that is the supervisor's child; 0 in that process.

    Raises:
        OSError: when the kernel has no process to give.
    """
    read_fd, write_fd = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            pid = os.fork()
            if pid == 0:
                os.close(read_fd)
                os.close(write_fd)
                return 0
            # Before anybody knows it, so that whoever does can signal its group.
            os.setpgid(pid, pid)
            os.write(write_fd, str(pid).encode())
        except OSError as exc:
            os._exit(exc.errno or 1)
        os._exit(0)
    os.close(write_fd)
    number = os.read(read_fd, 32)
    os.close(read_fd)
    # Only when this one is gone does the new process have the supervisor as its parent.
    status = os.waitstatus_to_exitcode(os.waitpid(between, 0)[1])
    if not number or status != 0:
        raise OSError(status, os.strerror(max(status, 0)))
    return int(number)


if __name__ == "__main__":
    main()
