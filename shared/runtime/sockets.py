"""Listening TCP sockets: bound here, or inherited from whoever outlives this process."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import MutableMapping

from shared.errors import Misconfigured

BACKLOG = 2048
LISTEN_FD_VARIABLE = "HIVE_LISTEN_FD"
# Source: sd_listen_fds(3), SD_LISTEN_FDS_START.
_SYSTEMD_FIRST_FD = 3
_SYSTEMD_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def is_loopback(host: str) -> bool:
    """Whether `host` is `localhost` or a literal loopback address; other names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_listener(host: str, port: int, *, setting: str) -> socket.socket:
    """A listening TCP socket, not inheritable; port 0 takes any.

    Raises:
        Misconfigured: when the port is taken or the address is not ours, naming `setting`.
    """
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        # Two sockets may both bind with SO_REUSEADDR; only one of them may listen.
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except (OSError, OverflowError) as exc:
        listener.close()
        raise Misconfigured(_why(exc, host, port, setting)) from exc
    return listener


def _why(exc: Exception, host: str, port: int, setting: str) -> str:
    number = exc.errno if isinstance(exc, OSError) else None
    if number == errno.EADDRINUSE:
        return f"port {port} is taken; set {setting} to a free one, or end the program that holds it"
    if number == errno.EACCES:
        return f"port {port} needs privileges; set {setting} to one above 1023"
    return f"cannot listen on {host} port {port}: {getattr(exc, 'strerror', None) or exc}; check {setting}"


def take_inherited_listener(environ: MutableMapping[str, str] | None = None) -> socket.socket | None:
    """The listening socket passed to this process, or None when there is none.

    Either systemd's (`LISTEN_PID` is this process, descriptor 3) or ours (`HIVE_LISTEN_FD`). The variables
    are removed and the descriptor is closed on exec, so that no child takes either for its own.

    Raises:
        Misconfigured: when what was passed is no listening TCP socket.
    """
    env = os.environ if environ is None else environ
    ours = env.pop(LISTEN_FD_VARIABLE, None)
    systemd = {name: env.pop(name, "") for name in _SYSTEMD_VARIABLES}
    if ours:
        return _adopt(_as_fd(ours), LISTEN_FD_VARIABLE)
    if systemd["LISTEN_PID"] != str(os.getpid()):
        return None
    count = systemd["LISTEN_FDS"]
    if not count.isdecimal() or int(count) < 1:
        return None
    if int(count) > 1:
        raise Misconfigured(
            f"systemd passed {count} sockets and one is expected: one ListenStream= a .socket unit"
        )
    return _adopt(_SYSTEMD_FIRST_FD, "LISTEN_FDS")


def _as_fd(value: str) -> int:
    if not value.isdecimal() or len(value) > 7:
        raise Misconfigured(f"{LISTEN_FD_VARIABLE} must be the number of an open descriptor")
    return int(value)


def _adopt(fd: int, variable: str) -> socket.socket:
    try:
        os.set_inheritable(fd, False)
        listener = socket.socket(fileno=fd)
    except OSError as exc:
        raise Misconfigured(f"descriptor {fd} of {variable} is no open socket: {exc.strerror}") from exc
    listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    tcp = listener.family in (socket.AF_INET, socket.AF_INET6) and listener.type == socket.SOCK_STREAM
    if not (listening and tcp):
        listener.detach()
        raise Misconfigured(f"descriptor {fd} of {variable} is no listening TCP socket")
    listener.setblocking(False)
    return listener
