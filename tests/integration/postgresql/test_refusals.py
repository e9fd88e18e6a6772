"""What a broker says at its start of a database that it cannot use."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from services.broker.migrations import upgrade_schema
from services.broker.store import Store
from shared.errors import HiveError, Misconfigured, Unavailable
from tests.support.postgres import PostgresServer
from tests.support.units import BIN

pytestmark = pytest.mark.database("postgresql")


@pytest.fixture(autouse=True)
def _on_postgresql(database_kind: str) -> None:
    """None without a server."""


def test_a_password_is_taken_from_the_url_or_from_a_file(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    upgrade_schema(postgres.url_of(name, tcp=True))
    file = tmp_path / "password"
    file.write_text(f"{postgres.password}\n")
    upgrade_schema(f"postgresql://hive@localhost:{postgres.port}/{name}?password_file={file}")
    file.unlink()
    with pytest.raises(Misconfigured, match="password file"):
        upgrade_schema(f"postgresql://hive@localhost:{postgres.port}/{name}?password_file={file}")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("hive:wrong@127.0.0.1:{port}/postgres", "refuses the broker's user or password"),
        ("hive@127.0.0.1:{port}/postgres", "asks for the password of hive"),
        ("nobody@:{port}/postgres?host={directory}", "refuses the broker's user or password"),
        ("hive@:{port}/absent?host={directory}", "no such database"),
        ("hive:{password}@127.0.0.1:{port}/postgres?sslmode=verify-full", "does not answer"),
        ("hive@:{port}/postgres?host=/nowhere", "does not answer"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_a_clear_error(
    postgres: PostgresServer, where: str, reason: str
) -> None:
    password = quote(postgres.password)
    url = where.format(port=postgres.port, directory=postgres.directory, password=password)
    with pytest.raises(HiveError, match=reason) as caught:
        upgrade_schema(f"postgresql://{url}")
    assert isinstance(caught.value, Misconfigured) == ("does not answer" not in reason)
    assert postgres.password not in str(caught.value)


def test_a_user_who_may_make_no_tables_is_told_how_to_get_there(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    name = postgres.create_database()
    postgres.query("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(Misconfigured, match="ALTER DATABASE"):
            upgrade_schema(f"postgresql://guest@:{postgres.port}/{name}?host={postgres.directory}")
    finally:
        postgres.drop_database(name)
        postgres.query("DROP ROLE guest")


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    postgres.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(Misconfigured, match=r"LATIN1.*UTF8"):
            upgrade_schema(postgres.url_of("latin"))
    finally:
        postgres.drop_database("latin")


@contextmanager
def greeting_server(**said: str) -> Iterator[int]:
    """A port on which a server greets with these parameters, and lets everybody in."""

    def field(code: bytes, data: bytes) -> bytes:
        return code + (len(data) + 4).to_bytes(4, "big") + data

    def greet(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4_096)
            texts = (f"{name}\0{value}\0".encode() for name, value in said.items())
            parameters = b"".join(field(b"S", text) for text in texts)
            connection.sendall(field(b"R", bytes(4)) + parameters + field(b"Z", b"I"))
            connection.recv(4_096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=greet, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


@pytest.mark.parametrize("version", ["14.13 (Debian 14.13-1)", "9.6.24", "15"])
def test_a_server_too_old_is_refused_by_its_greeting(version: str) -> None:
    greeting = {"server_version": version, "server_encoding": "UTF8", "in_hot_standby": "on"}
    with greeting_server(**greeting) as port, pytest.raises(HiveError) as caught:
        upgrade_schema(f"postgresql://hive@127.0.0.1:{port}/hive")
    if version == "15":
        # New enough, but one that only follows another: that may change.
        assert isinstance(caught.value, Unavailable)
        assert "standby" in caught.value.message
    else:
        assert isinstance(caught.value, Misconfigured)
        assert f"PostgreSQL {version}, and the broker needs 15 or later" in caught.value.message


def test_without_its_driver_the_broker_says_how_to_install_it() -> None:
    program = """
        import sys
        from importlib.machinery import PathFinder
        class Without(PathFinder):
            @classmethod
            def find_spec(cls, name, *more):
                return None if name.startswith("pg8000") else PathFinder.find_spec(name, *more)
        sys.meta_path[sys.meta_path.index(PathFinder)] = Without
        from services.broker.store import Store
        Store("sqlite:////tmp/unused.sqlite")
        Store("postgresql://hive@localhost/hive")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert "Misconfigured: HIVE_BROKER_DATABASE_URL names PostgreSQL" in done.stderr
    assert "pip install 'hyperhive[broker,postgres]'" in done.stderr


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("hive:wrong@127.0.0.1:{port}/postgres", "refuses the broker's user or password"),
        ("hive@host/db?sslmode=prefer", "sslmode must be one of"),
    ],
)
def test_the_broker_ends_with_one_line_and_the_status_of_wrong_settings(
    postgres: PostgresServer, tmp_path: Path, where: str, reason: str
) -> None:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HIVE_ROOT": str(tmp_path),
        "HIVE_BROKER_PORT": "0",
        "HIVE_BROKER_DATABASE_URL": f"postgresql://{where.format(port=postgres.port)}",
    }
    done = subprocess.run(
        [BIN / "hive-broker"], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 3
    *_, last = done.stderr.splitlines()
    assert reason in last
    assert "Traceback" not in done.stderr
    assert "wrong@" not in done.stderr


def test_a_url_shows_in_no_error(postgres: PostgresServer) -> None:
    with pytest.raises(Misconfigured) as caught:
        Store("postgresql://hive:hunter2@localhost/hive?unknown=1")
    assert "hunter2" not in str(caught.value)
