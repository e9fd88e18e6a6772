"""The database, seen from the services: `Store.write` and `Store.read` run functions over a `Tx`."""

from __future__ import annotations

from services.broker.store.database import Store
from services.broker.store.lock import hold_database
from services.broker.store.news import Topic
from services.broker.store.tx import Tx

__all__ = ["Store", "Topic", "Tx", "hold_database"]
