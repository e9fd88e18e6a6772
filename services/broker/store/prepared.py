"""Statements of the busiest paths, compiled once and run on the driver's cursor.

SQLAlchemy's own execution costs several times what the database does for a statement this small. Values and
columns go through as the driver has them: only for plain numbers, texts and booleans.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement as one dialect writes it."""

    sql: str
    names: tuple[str, ...]  # in the order of the placeholders
    defaults: dict[str, Any]
    is_positional: bool

    def bind(self, values: dict[str, Any]) -> Any:  # noqa: ANN401 - what the driver takes
        merged = {**self.defaults, **values}
        return tuple([merged[name] for name in self.names]) if self.is_positional else merged


class Prepared:
    """One statement with named parameters; no lists among them.

    Args:
        statement: what SQLAlchemy would execute.
        columns: names of the result's columns, for `all` and `first`.
    """

    def __init__(self, statement: ClauseElement, columns: Sequence[str] = ()) -> None:
        self._statement = statement
        make_class: Any = namedtuple  # noqa: PYI024 - its columns are known at run time only
        self._make: Callable[[Sequence[Any]], Any] = make_class("Row", columns)._make
        self._forms: dict[str, _Form] = {}

    def all(self, connection: Connection, **values: Any) -> list[Any]:  # noqa: ANN401
        """All rows, as named tuples."""
        return [self._make(row) for row in self._execute(connection, values).fetchall()]

    def first(self, connection: Connection, **values: Any) -> Any | None:  # noqa: ANN401
        """The first row, as a named tuple."""
        row = self._execute(connection, values).fetchone()
        return None if row is None else self._make(row)

    def scalar(self, connection: Connection, **values: Any) -> Any | None:  # noqa: ANN401
        """The first column of the first row; None when there is no row."""
        row = self._execute(connection, values).fetchone()
        return None if row is None else row[0]

    def run(self, connection: Connection, **values: Any) -> int:  # noqa: ANN401
        """Execute it; returns how many rows it changed."""
        return int(self._execute(connection, values).rowcount)

    def run_ahead(self, connection: Connection, **values: Any) -> None:  # noqa: ANN401
        """Execute it with the next statement, where the driver can; nobody asks what it changed."""
        driver: Any = connection.connection.dbapi_connection
        if not hasattr(driver, "send_prepared"):
            self.run(connection, **values)
            return
        form = self._forms.get(connection.dialect.name) or self._compile(connection)
        with _raising(connection, form.sql):
            driver.send_prepared(form.sql, form.bind(values))

    def _execute(self, connection: Connection, values: dict[str, Any]) -> Any:  # noqa: ANN401
        form = self._forms.get(connection.dialect.name) or self._compile(connection)
        cursor = connection.connection.cursor()
        with _raising(connection, form.sql):
            cursor.execute(form.sql, form.bind(values))
        return cursor

    def _compile(self, connection: Connection) -> _Form:
        compiled: Any = self._statement.compile(dialect=connection.dialect)
        assert not compiled.post_compile_params, "a list cannot be a parameter here"
        positions = compiled.positiontup
        form = _Form(
            sql=str(compiled),
            names=tuple(positions or ()),
            defaults=dict(compiled.params),
            is_positional=positions is not None,
        )
        self._forms[connection.dialect.name] = form
        return form


def run_plain(connection: Connection, sql: str) -> None:
    """Execute one of the statements that have neither values nor rows, such as SAVEPOINT."""
    with _raising(connection, sql):
        connection.connection.cursor().execute(sql)


def run_plain_ahead(connection: Connection, sql: str) -> None:
    """The same, sent with the next statement where the driver can."""
    driver: Any = connection.connection.dbapi_connection
    if not hasattr(driver, "send_plain"):
        run_plain(connection, sql)
        return
    with _raising(connection, sql):
        driver.send_plain(sql)


@contextmanager
def _raising(connection: Connection, sql: str) -> Iterator[None]:
    try:
        yield
    except connection.dialect.loaded_dbapi.Error as exc:
        raise _wrap(exc, connection, sql) from exc


def _wrap(error: BaseException, connection: Connection, sql: str) -> BaseException:
    """The error as SQLAlchemy raises it, so that errors are looked at in one place; without the values."""
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, None, None)  # type: ignore[arg-type]  # of the driver's own class
    if lost:
        connection.invalidate(error)
    return DBAPIError.instance(
        sql,
        None,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=lost,
        dialect=dialect,
    )
