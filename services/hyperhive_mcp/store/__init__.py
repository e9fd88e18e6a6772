"""The daemon's small durable state in stdlib sqlite3, a module a family of tables."""

from services.hyperhive_mcp.store.state import StateStore

__all__ = ["StateStore"]
