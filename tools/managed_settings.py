"""Renders deploy/claude/managed-settings.json: what no Claude Code session on a hive's machine may use.

`Bash` is not on the list on purpose: an operator's own session keeps it, and a turn is given its tools by
`--tools`, from the same module.
"""

from __future__ import annotations

import json

from shared.permissions import MANAGED_DENY


def render_managed_settings() -> str:
    """The file's content, as Claude Code reads it from /etc/claude-code/managed-settings.json."""
    return json.dumps({"permissions": {"deny": list(MANAGED_DENY)}}, indent=2) + "\n"
