"""What all tables share: names of constraints, and the types of keys and times."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts rows up by itself only in a column declared INTEGER.
RowKey = BigInteger().with_variant(Integer, "sqlite")
Seconds = BigInteger
