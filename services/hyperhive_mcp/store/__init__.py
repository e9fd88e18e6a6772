"""The daemon's small durable state in stdlib sqlite3, a module a family of tables."""

from services.hyperhive_mcp.store.state import StateStore
from services.hyperhive_mcp.store.todos import TodoStore

__all__ = ["StateStore", "TodoStore"]
