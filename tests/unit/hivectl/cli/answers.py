"""A server that answers what was written beforehand, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[bytes], bytes]


@contextmanager
def serve_answers(*answers: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Accepts one connection an answer, reads a request, sends what the answer makes of it, closes."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65_536)
                received.append(request)
                connection.sendall(answer(request))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def reply(status: int, body: bytes) -> Answer:
    """An answer of HTTP."""
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    return lambda _request: head + body


def break_off(_request: bytes) -> bytes:
    """Closes the connection instead."""
    return b""
