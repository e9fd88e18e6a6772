"""Full text over messages: one interface, one module for each database's own index."""

from __future__ import annotations

from services.broker.store.search.rows import Progress, SearchRows, Sought

__all__ = ["Progress", "SearchRows", "Sought"]
