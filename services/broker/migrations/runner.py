"""Brings a database to the schema of this version, under a lock, all or nothing."""

from __future__ import annotations

from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection
from sqlalchemy.exc import SQLAlchemyError

from services.broker.store.engine import build_engine, create_sqlite_file, parse_url
from services.broker.store.failures import DAMAGED, translate
from shared.errors import HiveError, Misconfigured

_LOCK_SECONDS = 60

_log = structlog.get_logger(__name__)


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
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    script = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
        raise Misconfigured(
            f"the database has schema {current}, which this version does not know: a later version wrote it. "
            "Install that version or a later one, or restore a backup made before the upgrade"
        )
    head = script.get_current_head()
    if current != head:
        command.upgrade(config, "head")
        _log.info("database_migrated", from_schema=current, to_schema=head)
