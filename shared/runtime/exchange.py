"""One HTTP/1.1 request and its answer, over connections that are kept: all that a call to the broker needs.

Below `link`, above asyncio and httptools. No redirects, cookies, proxies, compression or retries: who calls
decides what a failure means. Why it is not httpx2: docs/adr/0014-lean-calls.md.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import anyio
import httptools

MAX_CONNECTIONS = 100
MAX_IDLE = 20
# Shorter than the server's own keep-alive, so that it is the client that drops an idle connection.
IDLE_SECONDS = 30.0
CONNECT_SECONDS = 3.0
MAX_ANSWER_BYTES = 16 * 1_048_576


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body, and the one header that callers look at."""

    status: int
    content: bytes
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class NoAnswer(Exception):
    """The connection could not be made, broke, or brought something that is no HTTP."""


class Peer:
    """A pool of connections to one URL.

    Args:
        url: http or https, with or without a path below which all requests go.
        tls: how a peer behind https is trusted.
    """

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = tls if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._netloc = parts.netloc.rpartition("@")[2]
        self._slots = anyio.Semaphore(MAX_CONNECTIONS, fast_acquire=True)
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self.is_closed = False

    def encode(self, method: str, target: str, headers: dict[str, str], body: bytes | None) -> bytes:
        """A whole request.

        Raises:
            UnicodeEncodeError: when a header or the target is no ASCII.
            ValueError: when one of them holds the end of a line.
        """
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"Host: {self._netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a header holds the end of a line")
        return b"".join((head.encode("ascii"), b"\r\n\r\n", body or b""))

    async def ask(self, request: bytes, *, on_leaving: Callable[[], None]) -> Answer:
        """Send a request and take its answer, however long that takes: the caller sets the limit.

        Args:
            request: from `encode`.
            on_leaving: called before the first byte leaves; from then on the peer may act on it.

        Raises:
            NoAnswer: when there is none.
        """
        async with self._slots:
            connection = self._take_idle() or await self._dial()
            try:
                on_leaving()
                answer = await connection.ask(request)
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            return answer

    def close(self) -> None:
        """Close all connections; requests in progress get no answer."""
        self.is_closed = True
        for connection in [*self._open]:
            connection.close()

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    def _keep(self, connection: _Connection) -> None:
        if connection.may_be_kept and len(self._idle) < MAX_IDLE and not self.is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    async def _dial(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._open.discard), self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as exc:
            raise NoAnswer(f"{type(exc).__name__} while connecting") from exc
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, used for one request after the other. Also the callbacks of its parser."""

    def __init__(self, on_lost: Callable[[_Connection], None]) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answered: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._retry_after = ""
        self._status: int | None = None
        self._ends_with_connection = True
        self._idle_since = self._loop.time()
        self.may_be_kept = False

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer."""
        self._answered = self._loop.create_future()
        if self._transport.is_closing():
            raise NoAnswer("the connection was closed")
        self._transport.write(request)
        return await self._answered

    def is_fresh(self) -> bool:
        """Whether an idle connection can be used: not too old, and nothing came on it, such as its end."""
        if self._transport.is_closing() or self._loop.time() - self._idle_since > IDLE_SECONDS:
            return False
        # The loop may not have had the time to tell us of the end.
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Drop the connection and whoever waits on it."""
        self.may_be_kept = False
        self._transport.abort()
        self._fail("the connection was closed")

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where to write."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End an answer that has no other end; fail one that has not come."""
        self._on_lost(self)
        self.may_be_kept = False
        if exc is None and self._status is not None and self._ends_with_connection:
            self._finish()
        self._fail(type(exc).__name__ if exc else "the peer closed the connection")

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(type(exc).__name__)
            self.close()

    # -- the parser

    def on_message_begin(self) -> None:
        """Begin an answer."""
        self._status, self._body, self._size, self._retry_after = None, [], 0, ""
        self._ends_with_connection = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note whether the answer says where it ends, and when to come again."""
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._ends_with_connection = False
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Note the status."""
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Keep a piece."""
        self._size += len(body)
        if self._size > MAX_ANSWER_BYTES:
            self._fail("the answer is too long")
            self.close()
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand the answer over, unless it only announces one."""
        if self._status is not None and self._status >= 200:
            self.may_be_kept = bool(self._parser.should_keep_alive())
            self._finish()

    def _finish(self) -> None:
        if self._answered is None or self._answered.done():
            # Nobody asked for it.
            self.may_be_kept = False
            return
        self._idle_since = self._loop.time()
        self._answered.set_result(Answer(self._status or 0, b"".join(self._body), self._retry_after))

    def _fail(self, reason: str) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(NoAnswer(reason))
