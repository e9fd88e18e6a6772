"""One connection to NATS, from connect to close: never reused, never reconnected by the library.

nats-py keeps what is published while it reconnects and sends it later, leaves requests hanging and tries a
refused login for ever; a new client for each connection has none of that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from services.broker.bus.login import Credential
from shared.errors import Conflict, HiveError, Misconfigured, NotFound, OutcomeUnknown, Unavailable
from shared.wire.notices import inbox_prefix_of

CONNECT_SECONDS = 3
REQUEST_SECONDS = 5.0
PING_SECONDS = 20
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 1.0
# JetStream's own number (source: nats-server, server/errors.json).
_WRONG_LAST_SEQUENCE = 10071
_NOTHING_DONE = (
    APIError,
    NoStreamResponseError,
    ServiceUnavailableError,
    nats.errors.NoRespondersError,
    nats.errors.ConnectionClosedError,
)

T = TypeVar("T")


class Link:
    """An open connection. `closed` is set when it ends, whoever ended it."""

    def __init__(self) -> None:
        self.client = Client()
        self.closed = anyio.Event()
        self.refusal: str | None = None
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def stream(self) -> JetStreamContext:
        """JetStream over this connection."""
        return self.client.jetstream(timeout=REQUEST_SECONDS)

    async def ask(self, request: Awaitable[T], *, what: str) -> T:
        """Await an answer; gives up when it takes too long and as soon as the connection is gone.

        Args:
            request: of nats-py.
            what: the request in words, for the error.

        Raises:
            NotFound: when what was asked for does not exist.
            Conflict: when the stream is not where the request expected it to be.
            Unavailable: when nothing was done.
            OutcomeUnknown: when it may have been done.
        """
        try:
            with anyio.move_on_after(REQUEST_SECONDS) as scope:
                self._waiting.add(scope)
                return await request
        except Exception as exc:
            # nats-py lets out whatever its transports raise, RuntimeError from uvloop among them.
            raise self._translate(exc, what) from exc
        finally:
            self._waiting.discard(scope)
        raise OutcomeUnknown(f"NATS did not answer: {what}")

    async def wait_closed(self) -> None:
        """Wait for the end of the connection."""
        while not self.closed.is_set():
            with anyio.move_on_after(_LOOK_SECONDS):
                await self.closed.wait()
            # An error while it closes keeps nats-py from calling us.
            if self.client.is_closed:
                self.end()

    def end(self) -> None:
        """Take note that the connection is gone: nobody waits for its answers any longer."""
        self.closed.set()
        for scope in self._waiting:
            scope.cancel()

    async def note_closed(self) -> None:
        """What nats-py calls at the end."""
        self.end()

    async def note_error(self, error: Exception) -> None:
        """What nats-py calls for each error; its own habit is a stack trace on stderr."""
        if "permissions violation" in str(error).lower():
            self.refusal = str(error).removeprefix("nats: ")

    def _translate(self, error: Exception, what: str) -> HiveError:
        if isinstance(error, APIError) and error.err_code == _WRONG_LAST_SEQUENCE:
            return Conflict(f"the stream has moved on: {what}", code="wrong_last_sequence")
        if isinstance(error, NotFoundError):
            return NotFound(f"NATS has no such thing: {what}")
        if isinstance(error, _NOTHING_DONE):
            return Unavailable(f"NATS refused: {what} ({error})")
        if self.refusal is not None:
            # The server tells the connection, not the request, which then runs into its timeout.
            refusal, self.refusal = self.refusal, None
            return Misconfigured(f"the broker's NATS user may not do this: {what} ({refusal})")
        return OutcomeUnknown(f"NATS did not answer: {what}")


@asynccontextmanager
async def connect(url: str, credential: Credential | None) -> AsyncIterator[Link]:
    """Open a connection for the length of the block; one attempt.

    Raises:
        Unavailable: when no server answers.
        Misconfigured: when the server refuses the user, or its password cannot be read.
    """
    link = Link()
    try:
        await _open(link, url, credential)
        yield link
    finally:
        link.end()
        with anyio.CancelScope(shield=True):
            await _close(link.client)


async def _open(link: Link, url: str, credential: Credential | None) -> None:
    password = credential.read_password() if credential else None
    try:
        await link.client.connect(
            [part.strip() for part in url.split(",")],
            user=credential.user if credential else None,
            password=password,
            name="hive-broker",
            inbox_prefix=inbox_prefix_of(credential.user if credential else "broker"),
            allow_reconnect=False,
            # Zero would mean without end.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_SECONDS,
            ping_interval=PING_SECONDS,
            error_cb=link.note_error,
            closed_cb=link.note_closed,
        )
    except Exception as exc:
        if "authorization" in str(exc).lower():
            raise Misconfigured(
                f"NATS refuses the user {credential.user if credential else 'that is none'}; check "
                "HIVE_BROKER_NATS_USER, HIVE_BROKER_NATS_SYS_USER and their password files"
            ) from exc
        raise Unavailable("NATS cannot be reached") from exc


async def _close(client: Client) -> None:
    try:
        with anyio.move_on_after(_CLOSE_SECONDS):
            await client.close()
    except Exception:  # noqa: BLE001 - after the server has gone it raises anything; nothing is left to close
        return
