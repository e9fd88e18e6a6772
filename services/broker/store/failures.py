"""The one place where the database's errors become ours."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from shared.errors import Conflict, HiveError, Misconfigured, OutcomeUnknown, Unavailable

# Primary result codes (source: sqlite.org/rescode.html); the extended ones have them in their low byte.
_SQLITE_TEXTS: dict[int, str] = {
    sqlite3.SQLITE_FULL: "the disk of the database is full; nothing was stored. Free space and try again",
    sqlite3.SQLITE_BUSY: "another process holds the database; nothing was stored. Try again",
    sqlite3.SQLITE_LOCKED: "another process holds the database; nothing was stored. Try again",
    sqlite3.SQLITE_READONLY: "the database is read-only; nothing was stored. Check the file's owner and mode",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened. Check that its directory exists and who owns it",
    sqlite3.SQLITE_IOERR: "reading or writing the database failed; nothing was stored. Check the disk",
}
_SQLITE_HOPELESS: dict[int, str] = {
    sqlite3.SQLITE_CORRUPT: "the database file is damaged. Restore a backup",
    sqlite3.SQLITE_NOTADB: "the database file is no SQLite database. Check HIVE_BROKER_DATABASE_URL",
}


def translate(error: SQLAlchemyError, *, committing: bool = False) -> HiveError:
    """Turn a database error into the error to show; the caller raises it `from error`.

    Args:
        error: what SQLAlchemy raised.
        committing: whether COMMIT was under way. If the connection broke then, nobody knows what was stored.
    """
    if committing and isinstance(error, DBAPIError) and error.connection_invalidated:
        return OutcomeUnknown(
            "the connection to the database broke during the commit; it may have been stored"
        )
    if isinstance(error, IntegrityError):
        return Conflict("a change at the same moment got in the way; look and try again")
    origin = getattr(error, "orig", None)
    if isinstance(origin, sqlite3.Error):
        number = getattr(origin, "sqlite_errorcode", 0) & 0xFF
        if number in _SQLITE_HOPELESS:
            return Misconfigured(_SQLITE_HOPELESS[number])
        if number in _SQLITE_TEXTS:
            return Unavailable(_SQLITE_TEXTS[number])
    if isinstance(error, OperationalError):
        return Unavailable("the database does not answer; nothing was stored. Try again")
    return HiveError("the database refused a statement", code="database_error")
