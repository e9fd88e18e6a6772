"""Schema revisions: what alembic runs. `store.schema` applies them at start; nothing else does."""

from __future__ import annotations

from pathlib import Path

LOCATION = Path(__file__).parent
