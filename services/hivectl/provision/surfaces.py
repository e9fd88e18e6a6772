"""Which surfaces there are to serve, and how a client is told of them in `mcp.json`."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from services.hivectl.provision.owned import write_owned
from services.hivectl.reading import read_json, read_regular
from shared.layout import AGENT_PORT_BLOCK, AgentLayout, HiveLayout, PortPlan

# In the order of their ports; those without a unit yet are absent.
BUILT_SURFACES: tuple[str, ...] = ("hyperhive", "bash")
# Ends a call that was in flight when its surface was killed: nothing else would in the legacy era.
CALL_TIMEOUT_MS = 45_000


def build_mcp_config(ports: PortPlan, block: int, token: str) -> dict[str, Any]:
    """The content of `mcp.json`. `alwaysLoad`: else the CLI may begin a turn before the tools are there."""
    return {
        "mcpServers": {
            surface: {
                "type": "http",
                "url": f"http://127.0.0.1:{ports.surface(block, surface)}/mcp",
                "headers": {"Authorization": f"Bearer {token}"},
                "alwaysLoad": True,
                "timeout": CALL_TIMEOUT_MS,
            }
            for surface in BUILT_SURFACES
        }
    }


def write_mcp_config(paths: AgentLayout, ports: PortPlan, block: int, token: str) -> None:
    """Write `mcp.json` (0600, atomically), unless it says the same already."""
    data = json.dumps(build_mcp_config(ports, block, token), indent=2).encode() + b"\n"
    try:
        if read_regular(paths.mcp_config) == data:
            return
    except OSError:
        pass  # missing, or something else is in its place
    write_owned(paths.mcp_config, data)


def list_blocks(layout: HiveLayout, ports: PortPlan) -> dict[str, int]:
    """The port blocks of the agents on disk, by name, as far as their `mcp.json` tells.

    The broker is who knows; this is for binding their sockets before it runs.
    """
    found = {}
    for config in sorted((layout.root / "agents").glob("*/mcp.json")):
        try:
            url = read_json(config)["mcpServers"][BUILT_SURFACES[0]]["url"]
            offset = (urlsplit(url).port or 0) - ports.surface(0, BUILT_SURFACES[0])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        block, rest = divmod(offset, AGENT_PORT_BLOCK)
        if rest == 0 and 0 <= block < ports.max_blocks:
            found[config.parent.name] = block
    return found
