"""The connection to PostgreSQL: statements prepared once, some sent ahead; values and errors as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, Integer, bindparam, literal_column, select, text
from sqlalchemy.exc import DBAPIError

from services.broker.migrations import upgrade_schema
from services.broker.store.engine import build_engine, parse_url
from services.broker.store.prepared import Prepared, run_plain, run_plain_ahead
from services.broker.tables import agents, messages
from shared.errors import Unavailable
from tests.support.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.database("postgresql")


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    engine = build_engine(parse_url(database))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def count_prepared(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) or 0)


def test_values_come_back_as_they_went_in(connection: Connection) -> None:
    values = ["", 'it\'s \\ 100 %s %% $1 "x"', "żółw 🐢\n\t\x01", "x" * 70_000, None]
    for value in values:
        assert connection.scalar(select(bindparam("value", value, type_=messages.c.body.type))) == value
    for flag in (True, False):
        assert connection.scalar(select(bindparam("flag", flag))) is flag
    for number in (0, -1, 2**63 - 1):
        assert connection.scalar(select(bindparam("number", number, type_=messages.c.id.type))) == number


def test_a_statement_is_prepared_once_and_few_are_kept(connection: Connection) -> None:
    query = select(agents.c.id).where(agents.c.id == bindparam("agent_id"))
    for agent_id in range(5):
        connection.execute(query, {"agent_id": agent_id})
    assert count_prepared(connection) == 1
    for number in range(300):
        other = select(literal_column(str(number), Integer)).where(agents.c.id == bindparam("agent_id"))
        connection.execute(other, {"agent_id": 1})
    assert count_prepared(connection) <= 256


def test_long_lists_are_not_prepared(connection: Connection) -> None:
    for size in (65, 1_000):
        query = select(agents.c.id).where(agents.c.id.in_(range(size)))
        assert connection.execute(query).all() == []
    assert count_prepared(connection) == 0


def test_what_was_sent_ahead_is_done_and_its_failure_is_heard_with_the_next(connection: Connection) -> None:
    with connection.begin():
        insert = Prepared(text("INSERT INTO meta (key, value) VALUES (:key, :value)"))
        insert.run_ahead(connection, key="a", value="1")
        run_plain_ahead(connection, "SAVEPOINT s")
        insert.run_ahead(connection, key="a", value="2")
        with pytest.raises(DBAPIError, match="duplicate key"):
            connection.scalar(text("SELECT 1"))
        run_plain(connection, "ROLLBACK TO SAVEPOINT s")
        assert connection.scalar(text("SELECT value FROM meta WHERE key = 'a'")) == "1"


def test_a_transaction_that_failed_ahead_of_its_commit_is_no_success(connection: Connection) -> None:
    transaction = connection.begin()
    insert = Prepared(text("INSERT INTO meta (key, value) VALUES (:key, :value)"))
    insert.run(connection, key="a", value="1")
    insert.run_ahead(connection, key="a", value="2")
    with pytest.raises(DBAPIError, match="duplicate key"):
        transaction.commit()
    transaction.rollback()
    assert connection.scalar(text("SELECT count(*) FROM meta WHERE key = 'a'")) == 0


@pytest.fixture(scope="module")
def tls_server(database_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server with a certificate that it signed itself, for `localhost`."""
    with postgres_server(start=False) as server:
        key, certificate = server.directory / "key.pem", server.directory / "certificate.pem"
        make = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(make, check=True, capture_output=True)
        server.give(key, certificate)
        server.settings |= {"ssl": "on", "ssl_cert_file": str(certificate), "ssl_key_file": str(key)}
        server.start()
        yield server


@pytest.mark.parametrize(
    ("host", "options", "accepted"),
    [
        ("localhost", "sslmode=verify-full&sslrootcert={certificate}", True),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert={certificate}", False),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert={certificate}", True),
        ("localhost", "sslmode=verify-ca", False),
        ("localhost", "sslmode=require", True),
    ],
)
def test_a_certificate_is_checked_as_far_as_sslmode_says(
    tls_server: PostgresServer, tmp_path: Path, host: str, options: str, accepted: bool
) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes((tls_server.directory / "certificate.pem").read_bytes())
    name = tls_server.create_database()
    login = f"hive:{quote(tls_server.password)}@{host}:{tls_server.port}/{name}"
    url = f"postgresql://{login}?{options.format(certificate=certificate)}"
    if not accepted:
        with pytest.raises(Unavailable):
            upgrade_schema(url)
        return
    upgrade_schema(url)
    engine = build_engine(parse_url(url))
    with engine.connect() as connection:
        query = text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert connection.scalar(query) is True
    engine.dispose()
