"""`hivectl mcp-config`: how `claude` connects to an agent's surfaces. Reads files only."""

from __future__ import annotations

import click

from services.hivectl.agent_view import claude_command, read_surface_urls
from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.session import Session
from shared.errors import NotFound
from shared.wire.names import find_near_names


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl mcp-config iris", "the file, and the command to paste"),
        ('claude --mcp-config "$(hivectl mcp-config iris --json | jq -r .path)"', ""),
    ),
)
@click.argument("name", type=AGENT_NAME)
@pass_session
def mcp_config(session: Session, name: str) -> None:
    """Say where an agent's MCP configuration is, and the `claude` command that uses it.

    The file holds the agent's credential: it is shown nowhere, and only its owner may read it.
    """
    agents = session.read_hive().agents
    if name not in agents:
        near = find_near_names(name, agents)
        hint = f"did you mean {' or '.join(near)}?" if near else "`hivectl agent list` shows all"
        raise NotFound(f"there is no agent {name!r}; {hint}", details={"agent": name})
    path = agents[name].mcp_config
    urls = read_surface_urls(path)
    command = claude_command(path)
    if session.as_json:
        session.emit_json({"path": str(path), "command": command, "urls": urls})
        return
    click.echo(path)
    click.echo(command)
