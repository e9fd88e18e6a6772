"""The supervisor's side of its control socket: JSON lines from the daemon, and events to it.

The first connection is inherited from the daemon that started the task; a daemon that was started later
connects through the task's directory. A daemon that is slow or gone holds nothing up: what it does not take
is dropped, and the end of the task is on disk in any case.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from shared.tasks.supervisor.record import SOCKET

Command = dict[str, Any]
MAX_LINE_BYTES: Final = 1 << 20
_BACKLOG: Final = 8
_MAX_CONNECTIONS: Final = 16
_CONNECT_SECONDS: Final = 1.0


def socket_path(directory: int) -> str:
    """A path of the control socket that is short however long the directory's is (unix(7): 108 bytes)."""
    return f"/proc/self/fd/{directory}/{SOCKET}"


class Control:
    """All connections of one supervisor.

    Args:
        directory: of the task's record.
        first: the connection on which the launch came.
        held: what came behind that.
    """

    def __init__(self, directory: int, first: socket.socket, held: bytes) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.bind(socket_path(directory))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._connections: dict[int, tuple[socket.socket, bytearray]] = {}
        self._add(first, held)

    def descriptors(self) -> Iterable[int]:
        """What to poll for reading."""
        return (self._listener.fileno(), *self._connections)

    def begin(self, carry_out: Callable[[Command], Command]) -> None:
        """Answer what came with the launch."""
        for connection, held in list(self._connections.values()):
            self._answer_lines(connection, held, carry_out)

    def serve(self, descriptor: int, carry_out: Callable[[Command], Command]) -> None:
        """Take what is ready on a descriptor of ours; `carry_out` answers one command with one reply."""
        if descriptor == self._listener.fileno():
            with contextlib.suppress(OSError):
                self._add(self._listener.accept()[0])
        elif descriptor in self._connections:
            self._read(*self._connections[descriptor], carry_out)

    def announce(self, event: Command) -> None:
        """Tell every daemon that listens."""
        for connection, _ in list(self._connections.values()):
            self._send(connection, event)

    def close(self) -> None:
        """Hang up; a daemon then reads the end off the disk."""
        self._listener.close()
        for connection, _ in self._connections.values():
            connection.close()
        self._connections.clear()

    def _add(self, connection: socket.socket, held: bytes = b"") -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        self._connections[connection.fileno()] = (connection, bytearray(held))

    def _read(
        self, connection: socket.socket, held: bytearray, carry_out: Callable[[Command], Command]
    ) -> None:
        try:
            chunk = connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        held += chunk
        if not chunk or len(held) > MAX_LINE_BYTES:
            del self._connections[connection.fileno()]
            connection.close()
            return
        self._answer_lines(connection, held, carry_out)

    def _answer_lines(
        self, connection: socket.socket, held: bytearray, carry_out: Callable[[Command], Command]
    ) -> None:
        while (end := held.find(b"\n")) >= 0:
            line = bytes(held[:end])
            del held[: end + 1]
            self._send(connection, _answer(line, carry_out))

    def _send(self, connection: socket.socket, message: Command) -> None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps(message).encode() + b"\n", socket.MSG_NOSIGNAL)


def _answer(line: bytes, carry_out: Callable[[Command], Command]) -> Command:
    try:
        command = json.loads(line)
    except ValueError:
        return {"ok": False, "error": "that is no JSON"}
    return carry_out(command)


def connect(path: Path) -> socket.socket:
    """Connect to the supervisor of a task by its directory; a second is the limit of this and later calls.

    Raises:
        OSError: `ENOENT` or `ECONNREFUSED` when there is none, `TimeoutError` when it does not take it.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(socket_path(directory))
    except OSError:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection
