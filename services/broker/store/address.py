"""Where a PostgreSQL server is and how to reach it, read from the database URL; opens connections there."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

from shared.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from services.broker.store.postgresql import PgConnection

SETTING = "HIVE_BROKER_DATABASE_URL"
# The oldest version that the tests run on, and that PostgreSQL itself still maintains.
MIN_VERSION = 15
CONNECT_SECONDS = 5.0
_PORT = 5432
_OPTIONS = ("host", "password_file", "sslmode", "sslrootcert", "sslcert", "sslkey")
_MODES = ("disable", "require", "verify-ca", "verify-full")
_NEAR = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class PgAddress:
    """A server, a database on it, and the credential."""

    host: str  # a name, an address, or the directory of a unix socket
    port: int
    user: str
    database: str
    password: str | None
    password_file: Path | None
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, url: URL) -> PgAddress:
        """Read a URL.

        Raises:
            Misconfigured: naming what is wrong in it.
        """
        options = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise Misconfigured(f"{SETTING}: unknown {', '.join(unknown)}; there are {', '.join(_OPTIONS)}")
        if not url.username or not url.database:
            raise Misconfigured(f"{SETTING} must name user and database: postgresql://USER@HOST/DATABASE")
        host = options.get("host") or url.host or "localhost"
        file = options.get("password_file")
        if file is not None and not Path(file).is_absolute():
            raise Misconfigured(f"{SETTING}: password_file must be an absolute path")
        return cls(
            host=host,
            port=url.port or _PORT,
            user=url.username,
            database=url.database,
            password=None if url.password is None else str(url.password),
            password_file=None if file is None else Path(file),
            tls=_build_tls(host, options),
        )

    def connect(self, *, settings: Mapping[str, str], timeout_seconds: float) -> PgConnection:
        """Open a connection.

        Args:
            settings: of the session, by the server's own names.
            timeout_seconds: how long to wait for any one answer.

        Raises:
            Misconfigured: when the server is too old, refuses the credential, or has no such database.
            Unavailable: when it is a standby.
            pg8000.Error: when it cannot be reached, or is just starting.
        """
        from services.broker.store import postgresql  # noqa: PLC0415 - an extra of its own

        password = self._read_password()
        try:
            channel = self._open_socket()
        except OSError as exc:
            raise postgresql.OperationalError(f"network error: {exc}") from exc
        channel.settimeout(timeout_seconds)
        try:
            connection = postgresql.PgConnection(
                self.user,
                host=self.host,
                database=self.database,
                password=password,
                sock=channel,
                ssl_context=self.tls or False,
                application_name="hyperhive",
                startup_params={"client_encoding": "UTF8", **settings},
            )
        except BaseException as exc:
            channel.close()
            if password is None and isinstance(exc, AttributeError):
                raise Misconfigured(
                    f"PostgreSQL asks for the password of {self.user}: put it into {SETTING}, or name a file "
                    "with ?password_file=/path"
                ) from exc
            raise
        try:
            _check_server(connection.parameter_statuses)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_password(self) -> str | None:
        if self.password_file is None:
            return self.password
        try:
            return self.password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise Misconfigured(f"{SETTING}: the password file {self.password_file} cannot be read") from exc

    def _open_socket(self) -> socket.socket:
        if not self.host.startswith("/"):
            channel = socket.create_connection((self.host, self.port), CONNECT_SECONDS)
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return channel
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.settimeout(CONNECT_SECONDS)
            channel.connect(f"{self.host}/.s.PGSQL.{self.port}")
        except BaseException:
            channel.close()
            raise
        return channel


def _build_tls(host: str, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """What `sslmode` asks for; without it, nothing on this machine, and everything to another."""
    near = host.startswith("/") or host in _NEAR
    mode = options.get("sslmode") or ("disable" if near else "verify-full")
    if mode not in _MODES:
        raise Misconfigured(f"{SETTING}: sslmode must be one of {', '.join(_MODES)}")
    if mode == "disable":
        return None
    try:
        context = ssl.create_default_context(cafile=options.get("sslrootcert"))
        if "sslcert" in options:
            context.load_cert_chain(options["sslcert"], options.get("sslkey"))
    except OSError as exc:
        raise Misconfigured(f"{SETTING}: a certificate or key cannot be read: {exc}") from exc
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context


def _check_server(said: Mapping[str, str]) -> None:
    """Look at what a server says of itself when it greets."""
    version = said.get("server_version", "")
    major = re.match("[0-9]+", version)
    if major is None or int(major[0]) < MIN_VERSION:
        raise Misconfigured(
            f"the server behind {SETTING} is PostgreSQL {version or 'of no version'}, and the broker needs "
            f"{MIN_VERSION} or later"
        )
    if said.get("server_encoding") != "UTF8":
        raise Misconfigured(
            f"the database has the encoding {said.get('server_encoding')} and cannot hold every text; make "
            "one with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    if said.get("in_hot_standby") == "on":
        raise Unavailable("the database server is a standby, which cannot be written to; nothing was stored")
