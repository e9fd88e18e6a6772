"""Statements of the busiest paths, compiled once and run on the driver's cursor.

SQLAlchemy's own execution costs several times what the database does for a statement this small. Values and
columns go through as the driver has them: only for plain numbers, texts and booleans.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement as one dialect writes it."""

    sql: str
    bind: Callable[[dict[str, Any]], Any]  # from values by name to what the driver takes


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
        try:
            driver.send_prepared(form.sql, form.bind(values))
        except connection.dialect.loaded_dbapi.Error as exc:
            raise _wrap(exc, connection, form.sql) from exc

    def _execute(self, connection: Connection, values: dict[str, Any]) -> Any:  # noqa: ANN401
        form = self._forms.get(connection.dialect.name) or self._compile(connection)
        driver: Any = connection.connection.dbapi_connection
        try:
            return driver.cursor().execute(form.sql, form.bind(values))
        except connection.dialect.loaded_dbapi.Error as exc:
            raise _wrap(exc, connection, form.sql) from exc

    def _compile(self, connection: Connection) -> _Form:
        compiled: Any = self._statement.compile(dialect=connection.dialect)
        assert not compiled.post_compile_params, "a list cannot be a parameter here"
        names = compiled.positiontup
        given = {bind.key for bind in compiled.binds.values() if bind.required}
        defaults = {name: value for name, value in compiled.params.items() if name not in given}
        form = _Form(str(compiled), _binder(names, defaults))
        self._forms[connection.dialect.name] = form
        return form


def run_plain(connection: Connection, sql: str) -> None:
    """Execute one of the statements that have neither values nor rows, such as SAVEPOINT."""
    driver: Any = connection.connection.dbapi_connection
    try:
        driver.cursor().execute(sql)
    except connection.dialect.loaded_dbapi.Error as exc:
        raise _wrap(exc, connection, sql) from exc


def end_plain(connection: Connection, end: Literal["commit", "rollback"]) -> None:
    """End the driver's transaction, if it is in one, behind SQLAlchemy's back."""
    driver: Any = connection.connection.dbapi_connection
    try:
        getattr(driver, end)()
    except connection.dialect.loaded_dbapi.Error as exc:
        raise _wrap(exc, connection, end.upper()) from exc


def run_plain_ahead(connection: Connection, sql: str) -> None:
    """The same, sent with the next statement where the driver can."""
    driver: Any = connection.connection.dbapi_connection
    if not hasattr(driver, "send_plain"):
        run_plain(connection, sql)
        return
    try:
        driver.send_plain(sql)
    except connection.dialect.loaded_dbapi.Error as exc:
        raise _wrap(exc, connection, sql) from exc


def _binder(names: Sequence[str] | None, defaults: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    """What puts values in the order of the placeholders `names`, with those that stand in the statement."""
    if names is None:
        return lambda values: {**defaults, **values}
    in_order = (
        itemgetter(*names) if len(names) > 1 else lambda values: tuple([values[name] for name in names])
    )
    return (lambda values: in_order({**defaults, **values})) if defaults else in_order


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
