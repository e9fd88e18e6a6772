"""The listening sockets of all units. They outlive the units, so that calls wait while one restarts."""

from __future__ import annotations

import socket

from shared.errors import Misconfigured
from shared.runtime.sockets import bind_listener

HOST = "127.0.0.1"


class Listeners:
    """Bound sockets by port. Not inherited unless passed on at a spawn."""

    def __init__(self) -> None:
        self._by_port: dict[int, socket.socket] = {}

    def bind(self, port: int, owner: str) -> int:
        """The descriptor of the socket on `port`, bound now unless it already is.

        Raises:
            Misconfigured: when the port is taken, naming `owner` and the setting to change.
        """
        held = self._by_port.get(port)
        if held is None:
            held = self._by_port[port] = _bind(port, owner)
        return held.fileno()

    def close(self, port: int) -> None:
        """Give the port up: from now on connections to it are refused."""
        held = self._by_port.pop(port, None)
        if held is not None:
            held.close()

    def close_all(self) -> None:
        """Give every port up."""
        for port in list(self._by_port):
            self.close(port)


def check_port_free(port: int, owner: str) -> None:
    """Try a port that somebody else is going to bind.

    Raises:
        Misconfigured: when it is taken.
    """
    _bind(port, owner).close()


def _bind(port: int, owner: str) -> socket.socket:
    try:
        return bind_listener(HOST, port, setting="--port-base")
    except Misconfigured as exc:
        details = {"port": port, "for": owner, "setting": "--port-base"}
        raise Misconfigured(f"{owner}: {exc.message}", code="port_taken", details=details) from exc
