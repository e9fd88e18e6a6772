"""Prepared statements: the same on both databases, and never with a list among their parameters."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest
from sqlalchemy import bindparam, create_engine, select
from sqlalchemy.dialects.postgresql.pg8000 import PGDialect_pg8000
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from services.broker import store
from services.broker.store.inbox import _ACKS
from services.broker.store.prepared import Prepared
from services.broker.tables import messages, metadata

DIALECTS: tuple[Any, ...] = (SQLiteDialect_pysqlite, PGDialect_pg8000)
PREPARED = {
    f"{module.name}.{name}": value
    for module in pkgutil.iter_modules(store.__path__)
    for name, value in vars(importlib.import_module(f"{store.__name__}.{module.name}")).items()
    if isinstance(value, Prepared)
}
PREPARED |= {
    f"acks.{is_operator}.{name}": value
    for is_operator, acks in _ACKS.items()
    for name, value in vars(acks).items()
}
BOUND_STATE = re.compile(r"WHERE.*\bmessages\.state\b *(=|IN) *\(?\?", re.DOTALL)


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


@pytest.mark.parametrize("name", PREPARED)
def test_no_statement_is_planned_anew_for_each_state(name: str) -> None:
    """A partial index on the state makes SQLite drop its plan whenever a state is bound."""
    sql = str(PREPARED[name]._statement.compile(dialect=SQLiteDialect_pysqlite()))
    assert not BOUND_STATE.search(sql)


@pytest.mark.parametrize("name", PREPARED)
def test_every_statement_is_led_by_an_index(name: str) -> None:
    """However many rows there are, no more are looked at than are asked for."""
    compiled: Any = PREPARED[name]._statement.compile(dialect=SQLiteDialect_pysqlite())
    values = [compiled.params[one] for one in compiled.positiontup]
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", tuple(values)).all()
    engine.dispose()
    steps = [row[3] for row in plan]
    assert not [step for step in steps if step.startswith("SCAN")]
    # The ids that stayed behind are few, and sorted.
    assert name.endswith(".stayed") or not [step for step in steps if "TEMP B-TREE" in step]
