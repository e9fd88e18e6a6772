"""The schema: made once, by whoever comes first, and never by an older version."""

from __future__ import annotations

import pkgutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from anyio import to_thread
from sqlalchemy import Connection, text

from services.broker.migrations import upgrade_schema, versions
from services.broker.store.engine import build_engine, parse_url
from services.broker.tables import metadata
from shared.errors import Misconfigured

HEAD = max(module.name for module in pkgutil.iter_modules(versions.__path__)).partition("_")[0]
only_sqlite = pytest.mark.database("sqlite")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.sqlite"


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A transaction on a database."""
    engine = build_engine(parse_url(url))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def _is_declared(name: str | None, kind: str, _parents: object) -> bool:
    """All but the index of words, which is of another kind on each database."""
    return kind != "table" or name is None or not name.startswith("message_words")


def test_the_revisions_make_exactly_the_tables_of_the_code(new_database: str) -> None:
    upgrade_schema(new_database)
    upgrade_schema(new_database)
    with connected(new_database) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_name": _is_declared}
        )
        assert compare_metadata(context, metadata) == []


def test_revisions_are_named_after_their_files_and_in_a_row() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(versions.__file__).parents[1]))
    revisions = list(ScriptDirectory.from_config(config).walk_revisions())
    assert [one.revision for one in revisions] == sorted((one.revision for one in revisions), reverse=True)
    for one in revisions:
        assert Path(one.path).name.partition("_")[0] == one.revision


def test_a_start_on_a_database_of_this_version_does_not_import_alembic(database: str) -> None:
    upgrade_schema(database)
    program = """
import sys
import services.broker.app
from services.broker.migrations import upgrade_schema
upgrade_schema(sys.argv[1])
print([name for name in sys.modules if name.startswith("alembic")])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, database],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


@only_sqlite
def test_ids_are_declared_never_to_be_used_again(file: Path) -> None:
    upgrade_schema(url_of(file))
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'"
        ).fetchall()
    numbered = {
        "agents",
        "approvals",
        "messages",
        "jobs",
        "outbox",
        "refusals",
        "reminders",
        "schedules",
        "streams",
        "task_kills",
    }
    assert {name for (name,) in rows} == numbered


@only_sqlite
def test_the_file_is_private_and_in_wal_mode(file: Path) -> None:
    upgrade_schema(url_of(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_of_a_later_version_is_refused_with_what_to_do(database: str) -> None:
    upgrade_schema(database)
    with connected(database) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    with pytest.raises(Misconfigured, match=r"r9999.*later version"):
        upgrade_schema(database)


@only_sqlite
def test_a_file_that_is_no_database_is_refused(file: Path) -> None:
    file.write_bytes(b"definitely not SQLite, but long enough to look at" * 50)
    with pytest.raises(Misconfigured, match="no SQLite database"):
        upgrade_schema(url_of(file))
    assert file.read_bytes().startswith(b"definitely")


@only_sqlite
@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////no/such/dir/b.sqlite",
        "postgresql+psycopg://u@host/db",
        "postgresql://host/db",
        "postgresql://u@host",
        "postgresql://u@host/db?sslmode=prefer",
        "postgresql://u@host/db?sslrootcert=/no/such/file",
        "postgresql://u@host/db?password_file=relative",
        "postgresql://u@host/db?connect_timeout=5",
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured):
        upgrade_schema(url)


async def test_brokers_that_start_together_make_the_schema_once(new_database: str) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(to_thread.run_sync, upgrade_schema, new_database)
    with connected(new_database) as connection:
        (version,) = connection.scalars(text("SELECT version_num FROM alembic_version"))
    assert version == HEAD
