"""The tools of the bash surface, in the order in which they are listed. None is in a tool group."""

from __future__ import annotations

from shared.mcp.tool import Tool


def build_tools() -> list[Tool]:
    """All tools, wired to their services."""
    return []
