"""Brings a database to the schema of this version, under a lock, all or nothing."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.engine import build_engine, create_sqlite_file, parse_url
from services.broker.store.failures import DAMAGED, translate
from shared.errors import HiveError, Misconfigured

_LOCK_SECONDS = 60
_VERSIONS = Path(__file__).with_name("versions")


def upgrade_schema(database_url: str) -> None:
    """Apply what is missing, in one transaction that holds the database's write lock.

    Raises:
        Misconfigured: when the database was written by a later version, is damaged, or is no database.
        Unavailable: when it does not answer, or another process held the lock for a minute.
    """
    url = parse_url(database_url)
    try:
        create_sqlite_file(url)
    except OSError as exc:
        raise Misconfigured(f"cannot create the database {url.database}: {exc.strerror}") from exc
    engine = build_engine(url, lock_seconds=_LOCK_SECONDS)
    try:
        # On both databases a transaction begins with the lock that all who write take.
        with engine.begin() as connection:
            _upgrade(connection)
    except SQLAlchemyError as exc:
        raise _explain(translate(exc), url) from exc
    finally:
        engine.dispose()


def _explain(error: HiveError, url: URL) -> HiveError:
    """The error as it stands at a start: with the file's name, and final where no later try can help."""
    if url.get_backend_name() != "sqlite":
        return error
    kind = Misconfigured if error.code == DAMAGED else type(error)
    return kind(f"{url.database}: {error.message}")


def _upgrade(connection: Connection) -> None:
    if _read_revision(connection) == _newest():
        return
    # Alembic is a tenth of a start, and hardly any start needs it.
    from services.broker.migrations.steps import take_steps  # noqa: PLC0415

    take_steps(connection)


def _read_revision(connection: Connection) -> str | None:
    """What alembic wrote down; None for a database without that, or with more than one row."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return rows[0] if len(rows) == 1 else None


def _newest() -> str:
    """The revision of the newest file: they are named after it (a test holds that), and in a row."""
    return max(path.name.partition("_")[0] for path in _VERSIONS.glob("r[0-9]*_*.py"))
