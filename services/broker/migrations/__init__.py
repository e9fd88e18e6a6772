"""Schema revisions, applied at start. `migrate` is the only way in."""

from __future__ import annotations

from services.broker.migrations.runner import migrate

__all__ = ["migrate"]
