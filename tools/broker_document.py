"""Renders docs/openapi.json: the broker's document, as `GET /v1/operator/openapi.json` answers with it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from services.broker.app import create_app
from services.broker.config import Settings
from services.broker.routes.document import get_document


def render_broker_document() -> str:
    """The document of a broker that was wired but not started; it depends on no setting."""
    with tempfile.TemporaryDirectory() as root:
        document = get_document(create_app(Settings(root=Path(root))))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
