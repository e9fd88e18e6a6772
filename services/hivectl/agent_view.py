"""An agent as the CLI shows it: the registry's row, and where its surfaces and files are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from services.hivectl.hive_file import HiveFile
from services.hivectl.reading import read_json
from shared.errors import Misconfigured
from shared.layout import HiveLayout
from shared.wire.agents import Agent


def read_surface_urls(mcp_config: Path) -> dict[str, str]:
    """The URL of each surface in an `mcp.json`, and nothing of its headers.

    Raises:
        Misconfigured: when the file is missing, unreadable or malformed.
    """
    try:
        servers = read_json(mcp_config)["mcpServers"]
        return {str(key): str(entry["url"]) for key, entry in servers.items() if "url" in entry}
    except OSError as exc:
        raise Misconfigured(
            f"{mcp_config} cannot be read: {exc.strerror}; `hivectl doctor` says more"
        ) from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise Misconfigured(
            f"{mcp_config} is no MCP configuration; `hivectl token rotate` writes it anew"
        ) from exc


def claude_command(mcp_config: Path) -> str:
    """What to paste into a shell, so that `claude` has the agent's surfaces and no other servers."""
    return f"claude --mcp-config {shlex.quote(str(mcp_config))} --strict-mcp-config"


def state_word(agent: Agent) -> str:
    """`running`, `stopped` or `destroyed`."""
    if agent.destroyed:
        return "destroyed"
    return "running" if agent.running else "stopped"


def view_agent(agent: Agent, hive: HiveFile, layout: HiveLayout) -> dict[str, Any]:
    """The wire fields plus `state`, `urls`, `mcp_config` and `state_dir`; what is missing is empty."""
    view: dict[str, Any] = {**agent.model_dump(mode="json"), "state": state_word(agent)}
    if agent.destroyed:
        return {**view, "urls": {}, "mcp_config": None, "state_dir": None}
    part = hive.agents.get(agent.name)
    paths = layout.agent(agent.name)
    mcp_config = part.mcp_config if part else paths.mcp_config
    try:
        urls = read_surface_urls(mcp_config)
    except Misconfigured:
        urls = {}
    state_dir = part.state_dir if part else paths.state_dir
    return {**view, "urls": urls, "mcp_config": str(mcp_config), "state_dir": str(state_dir)}


def order_tree(agents: list[Agent]) -> list[tuple[int, Agent]]:
    """Agents with their depth, children after their parent; whose parent is not there stands at the top."""
    by_id = {agent.id: agent for agent in agents}
    living = {agent.name: agent.id for agent in agents if not agent.destroyed}
    children: dict[int | None, list[int]] = {}
    for agent in agents:
        children.setdefault(living.get(agent.parent or ""), []).append(agent.id)
    ordered: list[tuple[int, Agent]] = []
    seen: set[int] = set()
    waiting = [(0, row) for row in reversed(children.get(None, []))]
    while waiting:
        depth, row = waiting.pop()
        if row in seen:
            continue
        seen.add(row)
        ordered.append((depth, by_id[row]))
        waiting += [(depth + 1, child) for child in reversed(children.get(row, []))]
    # A circle has no top; the broker makes none, but a listing must lose nobody.
    return ordered + [(0, agent) for agent in agents if agent.id not in seen]
