"""Prepared statements: the same on both databases, and never with a list among their parameters."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from sqlalchemy import bindparam, create_engine, select
from sqlalchemy.dialects.postgresql.pg8000 import PGDialect_pg8000
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from services.broker import store
from services.broker.store.prepared import Prepared
from services.broker.tables import messages

DIALECTS: tuple[Any, ...] = (SQLiteDialect_pysqlite, PGDialect_pg8000)
PREPARED = {
    f"{module.name}.{name}": value
    for module in pkgutil.iter_modules(store.__path__)
    for name, value in vars(importlib.import_module(f"{store.__name__}.{module.name}")).items()
    if isinstance(value, Prepared)
}


@pytest.mark.parametrize("name", PREPARED)
def test_every_statement_can_be_written_for_both_databases(name: str) -> None:
    statement = PREPARED[name]._statement
    for make in DIALECTS:
        compiled: Any = statement.compile(dialect=make())
        assert not compiled.post_compile_params


def test_a_list_among_the_parameters_is_noticed() -> None:
    prepared = Prepared(
        select(messages.c.id).where(messages.c.id.in_(bindparam("ids", expanding=True))), ["id"]
    )
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(AssertionError, match="list"):
        prepared.all(connection, ids=[1])
    engine.dispose()
