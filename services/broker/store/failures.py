"""The one place where the database's errors become ours."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from shared.errors import Conflict, HiveError, InvalidInput, Misconfigured, OutcomeUnknown, Unavailable

# Primary result codes (source: sqlite.org/rescode.html); the extended ones have them in their low byte.
_SQLITE_TEXTS: dict[int, str] = {
    sqlite3.SQLITE_FULL: "the disk of the database is full; nothing was stored. Free space and try again",
    sqlite3.SQLITE_BUSY: "another process holds the database; nothing was stored. Try again",
    sqlite3.SQLITE_LOCKED: "another process holds the database; nothing was stored. Try again",
    sqlite3.SQLITE_READONLY: "the database is read-only; nothing was stored. Check the file's owner and mode",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened. Check that its directory exists and who owns it",
    sqlite3.SQLITE_IOERR: "reading or writing the database failed; nothing was stored. Check the disk",
}
# A page that is read long after the start may be the first that is damaged: then callers must hear why.
DAMAGED = "database_damaged"
# SQLSTATEs, or the class that their first two characters are (source: the PostgreSQL manual's appendix A).
_PG_TEXTS: dict[str, str] = {
    "53100": "the disk of the database is full; nothing was stored. Free space and try again",
    "53300": "the database accepts no more connections. Raise its max_connections and try again",
    "57P03": "the database is starting or stopping; nothing was stored. Try again in a moment",
    "57014": "the database took too long; nothing was stored. Try again",
    "55P03": "another broker holds the database; nothing was stored. Try again",
    "25006": "the database is read-only; nothing was stored",
    "40": "two changes got into each other's way; nothing was stored. Try again",
}
_PG_DAMAGED = frozenset({"XX001", "XX002"})
_PG_HOPELESS: dict[str, str] = {
    "28": "the database refuses the broker's user or password. Check HIVE_BROKER_DATABASE_URL",
    "3D000": "there is no such database. Create it, or check HIVE_BROKER_DATABASE_URL",
    "42501": "the broker's user lacks rights on the database. Make it the owner: ALTER DATABASE … OWNER TO …",
    "3F000": "the database has no schema to make tables in. Make one: CREATE SCHEMA public",
}


def was_lost(error: SQLAlchemyError) -> bool:
    """Whether the connection broke: what was not committed before is not stored."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def is_passing(error: SQLAlchemyError) -> bool:
    """Whether the same transaction, done anew, may well succeed: a peer or a lost connection undid it."""
    state = str(getattr(getattr(error, "orig", None), "sqlstate", ""))
    return was_lost(error) or state.startswith("40")


def translate(error: SQLAlchemyError, *, committing: bool = False) -> HiveError:
    """Turn a database error into the error to show; the caller raises it `from error`.

    Args:
        error: what SQLAlchemy raised.
        committing: whether COMMIT was under way. If the connection broke then, nobody knows what was stored.
    """
    if committing and was_lost(error):
        return OutcomeUnknown(
            "the connection to the database broke during the commit; it may have been stored"
        )
    if isinstance(error, IntegrityError):
        return Conflict("a change at the same moment got in the way; look and try again")
    origin = getattr(error, "orig", None)
    known: HiveError | None = None
    if isinstance(origin, sqlite3.Error):
        known = _translate_sqlite(getattr(origin, "sqlite_errorcode", 0) & 0xFF)
    elif code := getattr(origin, "sqlstate", None):
        known = _translate_pg(str(code))
    if known is None and isinstance(error, OperationalError | InterfaceError):
        known = Unavailable("the database does not answer; nothing was stored. Try again")
    return known or HiveError("the database refused a statement", code="database_error")


def _translate_sqlite(number: int) -> HiveError | None:
    if number == sqlite3.SQLITE_CORRUPT:
        text = "the database file is damaged; nothing was stored. The operator must restore a backup"
        return Unavailable(text, code=DAMAGED)
    if number == sqlite3.SQLITE_NOTADB:
        return Misconfigured("the database file is no SQLite database. Check HIVE_BROKER_DATABASE_URL")
    return Unavailable(_SQLITE_TEXTS[number]) if number in _SQLITE_TEXTS else None


def _translate_pg(code: str) -> HiveError | None:
    if code in _PG_DAMAGED:
        text = "the database is damaged; nothing was stored. The operator must restore a backup"
        return Unavailable(text, code=DAMAGED)
    for known in (code, code[:2]):
        if known in _PG_HOPELESS:
            return Misconfigured(_PG_HOPELESS[known])
        if known in _PG_TEXTS:
            return Unavailable(_PG_TEXTS[known])
    if code.startswith("22"):
        return InvalidInput("a value is too long, too large, or holds a character that cannot be stored")
    return None
