"""HTTP as bytes on a socket, for what no client library would send, and what no answer to it may hold."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httptools

READ_SECONDS = 20.0
# What only a traceback has.
_TRACES = (b"Traceback", b'File \\"', b'File "', b"site-packages")


@dataclass
class Reply:
    """One answer, as far as it came; `complete` says whether that was all of it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False

    @property
    def message(self) -> Any:
        """The JSON it carries, as it is or as the one event of a stream; None without a body."""
        body = self.body
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            (body,) = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
        return json.loads(body) if body else None


class Wire:
    """A connection: bytes out, replies in. Interim answers (100) are replies, too."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._parser = httptools.HttpResponseParser(self)
        self.replies: list[Reply] = []
        self.is_closed = False

    def send(self, data: bytes) -> None:
        """Send as much as the other side takes."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.is_closed = True

    def read(self, count: int = 1) -> list[Reply]:
        """Read until there are `count` whole final answers, or the other side closes.

        Raises:
            TimeoutError: when neither happens.
        """
        while len(self.finals) < count and not self.is_closed:
            self._receive()
        return self.finals

    def read_head(self) -> Reply:
        """Read until the head of an answer is there, whose body may never end."""
        while not self.replies or not self.replies[-1].status:
            self._receive()
            assert not self.is_closed
        return self.replies[-1]

    def finish(self) -> list[Reply]:
        """Say that nothing more comes, then read until the other side closes."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.is_closed = True
        while not self.is_closed:
            self._receive()
        return self.replies

    def reset(self) -> None:
        """Leave with a RST instead of a FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    @property
    def finals(self) -> list[Reply]:
        return [reply for reply in self.replies if reply.complete and reply.status >= 200]

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65_536)
        except ConnectionResetError:
            data = b""
        if data:
            self._parser.feed_data(data)
        else:
            self.is_closed = True

    # -- called by the parser

    def on_message_begin(self) -> None:
        self.replies.append(Reply())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.replies[-1].headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.replies[-1].status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.replies[-1].body += body

    def on_message_complete(self) -> None:
        self.replies[-1].complete = True


@contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    """A connection to a port of this machine, closed at the end whatever state it is in."""
    with socket.create_connection(("127.0.0.1", port), timeout=READ_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Wire(connection)


def check_harmless(replies: list[Reply]) -> None:
    """No answer is a fault of the server, and none tells of its insides."""
    for reply in replies:
        assert reply.status < 500, (reply.status, reply.body[:2000])
        assert not any(trace in reply.body for trace in _TRACES), reply.body[:2000]
        assert b'"code":-32603' not in reply.body.replace(b" ", b""), reply.body[:2000]
        assert b"failed inside hyperhive" not in reply.body, reply.body[:2000]
