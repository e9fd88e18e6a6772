"""The steps from an older schema to this one. Imports alembic, so only for a database that needs them."""

from __future__ import annotations

from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from shared.errors import Misconfigured

_log = structlog.get_logger(__name__)


def take_steps(connection: Connection) -> None:
    """Apply what is missing, in the transaction that `connection` is in.

    Raises:
        Misconfigured: when a later version wrote the database.
    """
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
