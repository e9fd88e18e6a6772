"""uvicorn's HTTP protocol with limits on request heads, which it does not have. Used by `serve` alone."""

from __future__ import annotations

import asyncio
import json

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from shared.runtime.joined import JoinedTransport
from shared.runtime.log import get_logger

MAX_HEAD_BYTES = 65_536


def _write_answer(status: str, code: str, message: str) -> bytes:
    """An error as `ErrorAnswer` has it, for what never becomes a request; the connection ends with it."""
    body = json.dumps({"code": code, "message": message, "details": {}, "request_id": None}).encode()
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


_TOO_LARGE = _write_answer(
    "431 Request Header Fields Too Large",
    "limit_exceeded",
    f"the request line and the headers are over the limit of {MAX_HEAD_BYTES} bytes",
)
_TOO_SLOW = _write_answer("408 Request Timeout", "timeout", "the head of the request did not arrive in time")
_MALFORMED = _write_answer("400 Bad Request", "invalid_input", "this is no HTTP/1.1 request")
_NO_TUNNEL = _write_answer("400 Bad Request", "invalid_input", "this is no proxy: CONNECT is not served")

log = get_logger()


class _HeadTooLarge(Exception):
    """Stops the parser."""


class LimitedProtocol(HttpToolsProtocol):
    """Drops a connection whose request line and headers pass `MAX_HEAD_BYTES` or take over `head_seconds`.

    The same number of bytes bounds what the parser keeps to itself until it is complete: a header, a trailer,
    the extension of a chunk. One read from the socket may be more than that.
    """

    head_seconds = 30.0

    _head_open = True
    _head_bytes = 0
    _silent_bytes = 0
    _too_large = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a head."""
        super().connection_made(transport)
        self._joined = JoinedTransport(transport, self.loop)
        self._begun: list[RequestResponseCycle] = []
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_timer()
        self._abandon()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own has it
        """Take who sends no more for gone: rows that were about to be handed to them must not be lost.

        Who only half-closes looks the same, and HTTP's own clients do not (RFC 9112, section 9.6).
        """
        # What is written meanwhile would be dropped.
        self._joined.flush()
        return False

    def on_message_begin(self) -> None:
        """Start to count."""
        self._silent_bytes = 0
        self._head_open = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count a piece of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header. A trailer is dropped: it would join the headers that the guard has checked.

        Blanks around a value are not part of it (RFC 9110, section 5.5); the parser leaves those at its end.
        """
        self._count(len(name) + len(value) + len(b": \r\n"))
        if self._head_open:
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Stop the clock; bodies are the guard's."""
        self._silent_bytes = 0
        self._head_open = False
        self._stop_timer()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            return
        # Its task has not begun yet.
        self.cycle.transport = self._joined  # type: ignore[assignment]  # as much of one as it uses
        self._begun = [cycle for cycle in self._begun if not cycle.response_complete]
        self._begun.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Note that it goes on."""
        self._silent_bytes = 0
        super().on_body(body)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and bound what it keeps to itself."""
        # What is answered below goes past it.
        self._joined.flush()
        self._silent_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            log.info("request_malformed")
            self.send_400_response("")
        if self.transport.is_closing():
            return
        if self._silent_bytes > MAX_HEAD_BYTES + len(data):
            self._refuse_size()
        elif self._timer is None and self.timeout_keep_alive_task is None and self._awaits_head():
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser could not go on with."""
        del msg
        if self._too_large:
            self._refuse_size()
        else:
            self._refuse(_MALFORMED)

    def shutdown(self) -> None:
        """Close when the answer in progress is out."""
        self._joined.flush()
        super().shutdown()

    def _awaits_head(self) -> bool:
        return self._head_open or self.cycle is None or self.cycle.response_complete

    def _count(self, size: int) -> None:
        self._silent_bytes = 0
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._too_large = True
            raise _HeadTooLarge

    def _refuse_size(self) -> None:
        log.warning("request_head_too_large", limit=MAX_HEAD_BYTES)
        self._refuse(_TOO_LARGE)

    def _refuse(self, answer: bytes) -> None:
        self._abandon()
        self.transport.write(answer)
        self.transport.close()

    def _abandon(self) -> None:
        """Tell the requests in progress that nobody listens any more.

        uvicorn tells it the newest one alone; what pipelined ones before it write would be an error.
        """
        for cycle in self._begun:
            cycle.disconnected = True
            cycle.message_event.set()
        self._begun = []

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self._joined.flush()
        if self.transport.is_closing():
            return
        if any(not cycle.response_complete for cycle in self._begun):
            # Closing would take the answer away from a request that was made as it should be.
            self._start_timer()
            return
        self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _feed(self, data: bytes) -> None:
        """Parse; an offer to go on in another protocol is as if it were not there (RFC 9110, section 7.8).

        The parser stops after the head of a request with one, taking the body for the other protocol's.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                method = self.parser.get_method()
                if method == b"CONNECT":
                    self._refuse(_NO_TUNNEL)
                    return
                head = [b"%s %s HTTP/%s\r\n" % (method, self.url, self.parser.get_http_version().encode())]
                head += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
                data = b"".join((*head, b"\r\n", data[offer.args[0] :]))
                self.parser = httptools.HttpRequestParser(self)
            else:
                return

    def _should_upgrade(self) -> bool:
        """Of a request with an offer nothing is begun: `_feed` gives it once more, without."""
        return True
