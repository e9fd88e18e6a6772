"""PostgreSQL through pg8000: its connection, made to answer a statement in one round trip.

pg8000 asks the server three times for a statement with parameters, and scans its text for each. Here every
statement is prepared once a connection, what has no result can be sent ahead of the next, and transactions
begin when we say so. Only `address` and `peers` import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from pg8000.converters import make_params
from pg8000.core import SYNC_MSG, Context
from pg8000.exceptions import Error, InterfaceError
from pg8000.legacy import Connection, IntegrityError, OperationalError, ProgrammingError

# With more parameters than this a statement is one of a kind: a list that was written out.
_MAX_PREPARED_PARAMETERS = 64
_MAX_PREPARED = 256
_IN_TRANSACTION = (b"T", b"E")
_PLACEHOLDER = re.compile("%(s|%)")

# What a failure is, by the first two characters of its SQLSTATE (source: the manual's appendix A).
_CONFLICT = "23"
_BAD_VALUE = "22"
_OPERATIONAL = frozenset({"08", "25", "40", "53", "55", "57", "58", "XX"})


class PgConnection(Connection):  # type: ignore[misc]
    """A connection outside of transactions until BEGIN; errors tell no values and carry their `sqlstate`."""

    def __init__(self, *args: object, **more: object) -> None:
        self._prepared: dict[str, tuple[bytes, Any, Any]] = {}
        self._unread: list[Any] = []
        try:
            super().__init__(*args, **more)
        except Error as exc:
            raise _own_error(exc) from None
        except OSError as exc:
            raise _lost(exc) from exc
        self.autocommit = True

    @property
    def descriptor(self) -> int:
        """What to wait on for news from the server."""
        return int(self._usock.fileno())

    def cursor(self) -> PgCursor:
        return PgCursor(self)

    def commit(self) -> None:
        self.run_plain("COMMIT")

    def rollback(self) -> None:
        if self._unread or self._transaction_status in _IN_TRANSACTION:
            self.run_plain("ROLLBACK")

    def close(self) -> None:
        """Close it; that the server has gone before is no error."""
        try:
            super().close()
        except (Error, OSError, ValueError):
            return

    def run_plain(self, sql: str) -> Any:  # noqa: ANN401 - pg8000's own
        """Run statements without parameters, several of them if need be, in one round trip."""
        self._require_open()
        return self.execute_simple(sql)

    def send_plain(self, sql: str) -> None:
        """Send statements without parameters; how they went is heard with the next answer."""
        self._require_open()
        self.send_QUERY(sql)
        self._unread.append(Context(sql))

    def send_prepared(self, sql: str, values: Sequence[object]) -> None:
        """The same for a statement with parameters, whose rows nobody wants."""
        self._require_open()
        name, columns, funcs = self._prepared.get(sql) or self._prepare(sql)
        self.send_BIND(name, make_params(self.py_types, values))
        self.send_EXECUTE()
        self._sock.write(SYNC_MSG)
        self._unread.append(Context(sql, columns=columns, input_funcs=funcs))

    def run_prepared(self, sql: str, values: Sequence[object]) -> Any:  # noqa: ANN401
        """Run one statement with parameters."""
        self._require_open()
        if len(values) > _MAX_PREPARED_PARAMETERS:
            return self.execute_unnamed(_number(sql), values)
        found = self._prepared.get(sql) or self._prepare(sql)
        return self.execute_named(found[0], make_params(self.py_types, values), found[1], found[2], sql)

    def handle_messages(self, context: Any) -> None:  # noqa: ANN401
        """Read the answers that are due, this one the last; the first error counts, for it caused the others.

        Where the connection breaks, what the server said last is the reason.
        """
        due, self._unread = [*self._unread, context], []
        for one in due:
            try:
                super().handle_messages(one)
            except (Error, OSError) as exc:
                if exc is not one.error:
                    raise _lost(one.error or exc) from None
        if (error := next((one.error for one in due if one.error is not None), None)) is not None:
            raise _own_error(error) from None

    def _prepare(self, sql: str) -> tuple[bytes, Any, Any]:
        if len(self._prepared) >= _MAX_PREPARED:
            oldest = next(iter(self._prepared))
            self.close_prepared_statement(self._prepared.pop(oldest)[0])
        found: tuple[bytes, Any, Any] = self.prepare_statement(_number(sql), ())
        self._prepared[sql] = found
        return found

    def _require_open(self) -> None:
        if self._sock is None:
            raise InterfaceError("connection is closed")


class PgCursor:
    """What SQLAlchemy needs of a cursor."""

    arraysize = 1

    def __init__(self, connection: PgConnection) -> None:
        self._connection = connection
        self._context: Any = None
        self._rows: Iterator[Any] = iter(())

    @property
    def rowcount(self) -> int:
        return -1 if self._context is None else int(self._context.row_count)

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        columns = None if self._context is None else self._context.columns
        if not columns:
            return None
        return [(column["name"], column["type_oid"], None, None, None, None, None) for column in columns]

    def execute(self, sql: str, values: Sequence[Any] = ()) -> PgCursor:
        if values:
            self._context = self._connection.run_prepared(sql, values)
        else:
            self._context = self._connection.run_plain(sql)
        self._rows = iter(self._context.rows or ())
        return self

    def executemany(self, sql: str, many: Sequence[Sequence[Any]]) -> PgCursor:
        done = 0
        for values in many:
            done += self.execute(sql, values).rowcount
        self._context.row_count = done
        return self

    def fetchone(self) -> Sequence[Any] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        return [row for row, _ in zip(self._rows, range(size or self.arraysize), strict=False)]

    def setinputsizes(self, *_sizes: object) -> None:
        """Nothing to do: types are written into the statements."""

    def close(self) -> None:
        self._rows = iter(())


@lru_cache(1_024)
def _number(sql: str) -> str:
    """A statement with PostgreSQL's own placeholders."""
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda found: f"${next(numbers)}" if found[1] == "s" else "%", sql)


def _lost(reason: object) -> Error:
    # SQLAlchemy knows a lost connection by these two words.
    return InterfaceError(f"network error: {_describe(reason)}")


def _own_error(error: Error) -> Error:
    """The error of the kind that DB-API has for it, without the values that stand in its details."""
    fields = error.args[0] if error.args else None
    if not isinstance(fields, dict):
        return error
    code = str(fields.get("C", ""))
    kind = ProgrammingError
    if code.startswith(_CONFLICT):
        kind = IntegrityError
    elif code[:2] in _OPERATIONAL:
        kind = OperationalError
    own: Error = kind(_describe(error))
    own.sqlstate = code
    return own


def _describe(reason: object) -> str:
    fields = reason.args[0] if isinstance(reason, Exception) and reason.args else None
    if not isinstance(fields, dict):
        return str(reason)
    code = str(fields.get("C", ""))
    # The text of these quotes the value.
    text = "a value does not fit" if code.startswith(_BAD_VALUE) else fields.get("M", "")
    return f"{code} {text}"


__all__ = ["Error", "OperationalError", "PgConnection"]
