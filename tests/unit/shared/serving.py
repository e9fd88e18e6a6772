"""A real server for an app, and raw HTTP to it for what a client library would not send."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from shared.runtime.protocol import LimitedProtocol
from shared.runtime.sockets import bind_listener
from tests.support.waiting import eventually

TOKEN = "t" * 43


@dataclass(frozen=True)
class Served:
    """An app on an ephemeral port."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def raw(self, request: bytes) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send bytes as they are; answers status, headers and body."""
        with socket.create_connection((self.host.strip("[]"), self.port), timeout=5) as connection:
            connection.sendall(request)
            response = http.client.HTTPResponse(connection)
            response.begin()
            return response.status, response.headers, response.read()

    def ask(
        self,
        method: str = "GET",
        path: str = "/who",
        *headers: str,
        body: bytes = b"",
        host: str | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """One request with exactly these headers and a right Host; answers status and parsed JSON."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        status, _, content = self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return status, json.loads(content) if content else {}


@contextmanager
def serving(
    app: ASGIApp, host: str = "127.0.0.1", protocol: type[LimitedProtocol] = LimitedProtocol
) -> Iterator[Served]:
    listener = bind_listener(host, 0, setting="none")
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="on", log_config=None, proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        eventually(lambda: server.started, what="the server runs")
        yield Served(f"[{host}]" if ":" in host else host, port)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
