"""Serving an app until a signal: inherited or own socket, bounded graceful stop, exit codes.

One call for `__main__`; blocks. Everything about uvicorn that a unit would otherwise have to know is here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import HiveError, Misconfigured
from shared.runtime.log import get_logger
from shared.runtime.protocol import LimitedProtocol
from shared.runtime.settings import EXIT_MISCONFIGURED
from shared.runtime.sockets import bind_listener, is_loopback, take_inherited_listener

EXIT_FAILED = 1
# Longer than the clients' own keep-alive, so that it is the client that drops an idle connection.
KEEP_ALIVE_SECONDS = 75
# How long connections are still answered once the stop began, each for the last time. A client in the middle
# of its work has then left for a new connection, which waits for the next process: had its connection been
# closed at once, its next request might have been under way already.
_LAST_CALL_SECONDS = 0.5
_POLL_SECONDS = 0.05
_CLOSE = (b"connection", b"close")
_GC_THRESHOLD = 10_000

log = get_logger()


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    port_setting: str,
    on_stop: Callable[[], None] | None = None,
    grace_seconds: float = 5,
    close_seconds: float = 10,
    behind_proxy: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; return after a graceful stop.

    Connections made while the app's lifespan starts wait for it. On a signal `on_stop` runs in the event loop
    (it ends streams that would never end by themselves), requests in progress have `grace_seconds`, and what
    is cut then is logged. A second signal ends the process at once.

    Args:
        app: the ASGI app.
        host: address to bind, unless a listening socket was passed to the process.
        port: port to bind; 0 takes any.
        port_setting: what to change when the port is taken, e.g. `HIVE_MCP_PORT`.
        on_stop: called once, in the event loop, when the stop begins.
        grace_seconds: how long requests in progress may take.
        close_seconds: how long the end of the app's lifespan may take after that, before the process ends
            with status 1 all the same.
        behind_proxy: the operator declared a proxy with TLS in front; without it only loopback is served.

    Raises:
        SystemExit: 3 when settings are wrong or the port is taken, 1 when the app could not start.
    """
    with exit_with_reason():
        listener = _open_listener(host, port, port_setting, behind_proxy=behind_proxy)
        watched = _LifespanWatch(app)
        config = uvicorn.Config(
            watched,
            loop="uvloop",
            http=LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # Nobody in front of a loopback port may say who the client is.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace_seconds,  # type: ignore[arg-type]  # goes to asyncio.wait_for
        )
        server = _Server(config, on_stop, limit_seconds=_LAST_CALL_SECONDS + grace_seconds + close_seconds)
        watched.on_failure = server.stop
        # A handler and not SIG_IGN, which programs started by this one would inherit.
        signal.signal(signal.SIGHUP, lambda *_: None)
        # uvicorn's status for a failed start is 3, which would keep a supervisor from trying again.
        with contextlib.suppress(SystemExit), contextlib.closing(listener):
            server.run([listener])
        if watched.failure is not None:
            raise watched.failure
        if not server.started:
            raise HiveError("the unit could not start; its log says why")


@contextlib.contextmanager
def exit_with_reason() -> Iterator[None]:
    """Run a unit's start: an expected error ends the process with one clear line instead of a traceback."""
    try:
        yield
    except Misconfigured as exc:
        sys.stderr.write(f"{exc.message}\n")
        raise SystemExit(EXIT_MISCONFIGURED) from exc
    except HiveError as exc:
        sys.stderr.write(f"{exc.message}\n")
        raise SystemExit(EXIT_FAILED) from exc


def _open_listener(host: str, port: int, setting: str, *, behind_proxy: bool) -> socket.socket:
    listener = take_inherited_listener()
    address = host if listener is None else listener.getsockname()[0]
    if not is_loopback(address) and not behind_proxy:
        if listener is not None:
            listener.close()
        raise Misconfigured(
            f"refusing to serve on {address}: only loopback is served unless a proxy with TLS is declared"
        )
    return listener or bind_listener(host, port, setting=setting)


class _LifespanWatch:
    """Keeps why the lifespan failed, and ends the server with it.

    uvicorn would go on serving when a background task of the lifespan's task group fails after the start.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: HiveError | None = None
        self.on_failure: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_quietly(message: Message) -> None:
            if message["type"] in ("lifespan.startup.failed", "lifespan.shutdown.failed"):
                message = {"type": message["type"]}
            await send(message)

        try:
            await self._app(scope, receive, send_quietly)
        except Exception as exc:
            self.failure = _find_hive_error(exc)
            if self.failure is None:
                log.exception("lifespan_failed")
                self.failure = HiveError("the unit failed; its log says why")
            self.on_failure()
            raise


def _find_hive_error(exc: BaseException) -> HiveError | None:
    """The expected error that `exc` is, or that it holds alone, as task groups wrap what fails in them."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc if isinstance(exc, HiveError) else None


class _Server(uvicorn.Server):
    """uvicorn with our stop: first signal graceful, second one final, exit status 0 when it went well."""

    def __init__(
        self, config: uvicorn.Config, on_stop: Callable[[], None] | None, *, limit_seconds: float
    ) -> None:
        super().__init__(config)
        self._on_stop = on_stop
        self._limit_seconds = limit_seconds
        self._signalled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        # What start-up built lives as long as the process; walking it in every collection costs latency.
        gc.collect()
        gc.freeze()
        # What requests leave behind is freed by counting; looking for cycles so often finds next to nothing.
        gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            log.info("serving_started", host=host, port=port)
        if self.should_exit:
            self._tell_app()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal. uvicorn's own version would end the process by the same signal after the stop."""
        del frame
        if self._signalled:
            os._exit(128 + sig)
        self._signalled = True
        self.stop()

    def stop(self) -> None:
        """Begin the graceful stop, once."""
        if not self.should_exit and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_stop)
        self.should_exit = True

    def _begin_stop(self) -> None:
        # Both: uvicorn builds the second from the first once a second, as long as it serves.
        self.config.encoded_headers = [*self.config.encoded_headers, _CLOSE]
        self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]
        log.info("stop_started", requests=len(self.server_state.tasks))
        asyncio.get_running_loop().call_later(self._limit_seconds, self._give_up)
        # Before the start is over there are no streams to end; `startup` makes up for it.
        if self.started:
            self._tell_app()

    def _tell_app(self) -> None:
        if self._on_stop is not None:
            try:
                self._on_stop()
            except Exception:
                log.exception("on_stop_failed")

    def _give_up(self) -> None:
        log.error("stop_overran", seconds=self._limit_seconds)
        os._exit(EXIT_FAILED)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + _LAST_CALL_SECONDS
        while self.server_state.connections and loop.time() < end:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(_POLL_SECONDS)
        await super().shutdown(sockets)
        log.info("stop_finished")
