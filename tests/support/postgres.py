"""A real PostgreSQL, Debian's package or another, run by an ordinary user on a socket and a loopback port.

The test is its parent: it ends it by its process id, kills it, suspends it, starts it again on the same port.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pg8000.native
import pytest

from tests.support.ports import free_port
from tests.support.waiting import eventually

SUPERUSER = "hive"
START_SECONDS = 30.0
STOP_SECONDS = 30.0
# The tests kill processes and not the machine: without the first two databases are made three times as fast.
# Autovacuum may sit in the database that is to be copied.
_QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
# Root may not run a server. Any account does that owns nothing else.
_UNPRIVILEGED = "nobody"


def find_postgres() -> Path | None:
    """The directory with the newest server's programs."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if (elsewhere := shutil.which("postgres")) is not None:
        found.append(Path(elsewhere).resolve().parent)
    return max(found, key=_version_of, default=None)


def _version_of(programs: Path) -> tuple[int, ...]:
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    numbers = re.search(r"\d+(\.\d+)*", said.stdout)
    assert numbers is not None, said.stdout
    return tuple(int(number) for number in numbers[0].split("."))


def require_postgres() -> Path:
    """The same; without one a test fails in CI and is skipped elsewhere."""
    found = find_postgres()
    if found is not None:
        return found
    missing = "no PostgreSQL server: apt-get install postgresql"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


@dataclass
class PostgresServer:
    """One server; local connections need no password, those over TCP do."""

    programs: Path
    directory: Path
    port: int
    settings: dict[str, str] = field(default_factory=lambda: dict(_QUICK))
    password: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    process: subprocess.Popen[bytes] | None = None
    made: int = 0

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def init(self) -> None:
        """Make the files of a server."""
        secret = self.directory / "password"
        secret.write_text(self.password)
        self.give(self.directory, secret)
        self._run(
            *("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", f"--pgdata={self.data}"),
            *(f"--username={SUPERUSER}", f"--pwfile={secret}"),
            *("--auth-local=trust", "--auth-host=scram-sha-256"),
        )

    def give(self, *paths: Path) -> None:
        """Make files the server's own."""
        if os.geteuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            for path in paths:
                os.chown(path, account.pw_uid, account.pw_gid)

    def start(self) -> None:
        """Start and wait until it takes statements."""
        wanted = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            "logging_collector": "off",
            **self.settings,
        }
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.programs / "postgres",
                    f"-D{self.data}",
                    *(f"-c{name}={value}" for name, value in wanted.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                **_as_ordinary_user(),
            )
        eventually(lambda: self.query("SELECT 1"), within=START_SECONDS, what=f"PostgreSQL; {self.log()}")

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it if it runs: by default at once, but in order; with SIGQUIT as by a crash."""
        if self.process is None or self.process.poll() is not None:
            return
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def restart(self, number: signal.Signals = signal.SIGINT) -> None:
        self.stop(number)
        self.start()

    def query(self, sql: str, *, database: str = "postgres") -> list[Any]:
        """Run a statement as the superuser, in a transaction of its own; answers its rows."""
        path = f"{self.directory}/.s.PGSQL.{self.port}"
        try:
            connection = pg8000.native.Connection(SUPERUSER, database=database, unix_sock=path)
        except pg8000.exceptions.Error as exc:
            raise ConnectionError(str(exc)) from exc
        with connection:
            return connection.run(sql) or []

    def create_database(self, *, template: str | None = None) -> str:
        """Make a database; answers its name."""
        self.made += 1
        name = f"h{self.made}"
        self.query(f"CREATE DATABASE {name}" + ("" if template is None else f" TEMPLATE {template}"))
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, also when somebody is still connected."""
        self.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def url_of(self, name: str, *, tcp: bool = False) -> str:
        """What a broker's settings say of a database."""
        if tcp:
            return f"postgresql://{SUPERUSER}:{quote(self.password)}@127.0.0.1:{self.port}/{name}"
        return f"postgresql://{SUPERUSER}@:{self.port}/{name}?host={self.directory}"

    def log(self) -> Path:
        return self.directory / "log"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.directory,
            **_as_ordinary_user(),
        )


def _as_ordinary_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(_UNPRIVILEGED)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@contextmanager
def postgres_server(*, start: bool = True, **fields: Any) -> Iterator[PostgresServer]:
    """A new server in a short directory of its own; ended and removed with the block."""
    # Not below pytest's own directory: another user could not get there, and a socket's path has 107 bytes.
    programs = require_postgres()
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    server = PostgresServer(programs, directory, free_port(), **fields)
    try:
        server.init()
        if start:
            server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
