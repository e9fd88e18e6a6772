"""Whose tasks run without the sandbox, as the surfaces themselves say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2

from services.hivectl.hive_file import HiveFile

_SECONDS: Final = 3.0


def find_unconfined(hive: HiveFile) -> list[str]:
    """The agents whose bash surface has its sandbox turned off; one that does not answer is left out."""
    return sorted(name for name, agent in hive.agents.items() if _is_off(agent.mcp_config))


def _is_off(mcp_config: Path) -> bool:
    try:
        entry: Mapping[str, Any] = json.loads(mcp_config.read_text(encoding="utf-8"))["mcpServers"]["bash"]
        url = str(entry["url"]).removesuffix("/mcp") + "/api/state"
        response = httpx2.get(url, headers=entry["headers"], timeout=_SECONDS, trust_env=False)
        return response.json().get("sandbox") is False
    except (OSError, ValueError, KeyError, TypeError, AttributeError, httpx2.HTTPError):
        # What is wrong with it, other checks say.
        return False
