"""Both databases: tests of the broker run on SQLite and on PostgreSQL, each with a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.broker.migrations import upgrade_schema
from tests.support.postgres import PostgresServer, postgres_server

KINDS = ("sqlite", "postgresql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for `database_kind` on all that `--database` admits, or its marker `database`."""
    if "database_kind" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("database")
    marker = metafunc.definition.get_closest_marker("database")
    kinds = [kind for kind in (marker.args if marker else KINDS) if chosen in {"both", kind}]
    metafunc.parametrize("database_kind", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def database_kind(request: pytest.FixtureRequest) -> str:
    """Which database the test runs on; asking for it makes the test run on each."""
    return str(request.param)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server with a database `migrated` to copy: the broker's schema, and no rows."""
    with postgres_server() as server:
        server.query("CREATE DATABASE migrated")
        upgrade_schema(server.url_of("migrated"))
        yield server


class Databases:
    """Makes databases of one kind."""

    def __init__(self, kind: str, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self._request = request

    @contextmanager
    def make(self, directory: Path, *, empty: bool = False) -> Iterator[str]:
        """A new database for the length of the block; answers its URL. `empty`: without a schema."""
        if self.kind == "sqlite":
            yield f"sqlite:///{directory}/broker.sqlite"
            return
        server: PostgresServer = self._request.getfixturevalue("postgres")
        name = server.create_database(template=None if empty else "migrated")
        try:
            yield server.url_of(name)
        finally:
            server.drop_database(name)


@pytest.fixture(scope="session")
def databases(database_kind: str, request: pytest.FixtureRequest) -> Databases:
    return Databases(database_kind, request)


@pytest.fixture
def database(databases: Databases, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database with the broker's schema, or, on SQLite, of a file yet to be made."""
    with databases.make(tmp_path) as url:
        yield url


@pytest.fixture
def new_database(databases: Databases, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a schema."""
    with databases.make(tmp_path, empty=True) as url:
        yield url


@pytest.fixture
def database_setting(
    databases: Databases, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a broker that the test starts would be set to by its environment."""
    if databases.kind != "sqlite" and "standing" not in request.fixturenames:
        monkeypatch.setenv("HIVE_BROKER_DATABASE_URL", request.getfixturevalue("database"))
