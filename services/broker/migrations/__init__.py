"""Schema revisions, applied at start. `upgrade_schema` is the only way in."""

from __future__ import annotations

from services.broker.migrations.runner import upgrade_schema

__all__ = ["upgrade_schema"]
