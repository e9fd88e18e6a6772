"""uvicorn's HTTP protocol with a limit on request heads, which it does not have. Used by `serve` alone."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.runtime.log import get_logger

MAX_HEAD_BYTES = 65_536
_REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

log = get_logger()


class LimitedProtocol(HttpToolsProtocol):
    """Drops a connection whose request line and headers pass `MAX_HEAD_BYTES`.

    It looks after every read from the socket, so a head that arrives in one read may be somewhat larger.
    """

    _head_bytes = 0
    _head_open = True

    def on_message_begin(self) -> None:
        """Start to count."""
        self._head_open = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting; bodies are the guard's."""
        self._head_open = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see whether the head is still coming."""
        super().data_received(data)
        if not self._head_open:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            log.warning("request_head_too_large", limit=MAX_HEAD_BYTES)
            self.transport.write(_REFUSAL)
            self.transport.close()
