"""What `up` answers: each URL, the command that connects a `claude`, and how to stop. On stdout."""

from __future__ import annotations

import json
from typing import Any

import click

from services.hivectl.agent_view import claude_command, read_surface_urls
from services.hivectl.hive_file import HiveFile, read_hive_file
from services.hivectl.provision import HiveSettings, find_settings
from services.hivectl.render import safe_block
from services.hivectl.sandbox_probe import Sandbox
from services.hivectl.supervisor.bring_up import StartReport
from shared.layout import HiveLayout

# Beyond this the list would push everything else off the screen.
_MAX_SHOWN = 12


def show_summary(
    layout: HiveLayout,
    report: StartReport,
    *,
    seconds: float,
    sandbox: Sandbox,
    how_to_stop: str,
    as_json: bool,
) -> None:
    """Print it, for people or as one JSON document."""
    hive = read_hive_file(layout)
    name = (find_settings(layout) or HiveSettings()).hive_name
    agents = {agent: _view(hive, agent) for agent in report.running if agent in hive.agents}
    if as_json:
        document = {
            "hive": name,
            "root": str(layout.root),
            "broker": {"url": hive.broker.url},
            "nats": {"url": hive.nats.url} if hive.nats else None,
            "agents": agents,
            "isolation": sandbox.line,
            "failed": list(report.failed),
        }
        click.echo(json.dumps(document, indent=2))
        return
    shown = dict(list(agents.items())[:_MAX_SHOWN])
    lines = [
        f"\nhive {name!r} is up ({seconds:.1f} s) in {layout.root}\n",
        f"  {'broker':<14}{hive.broker.url}",
    ]
    if hive.nats:
        lines.append(f"  {'nats':<14}{hive.nats.url}")
    for agent, view in shown.items():
        lines += [f"  {agent:<14}{url}  {surface}" for surface, url in view["urls"].items()]
    if len(agents) > len(shown):
        lines.append(f"  and {len(agents) - len(shown)} more: hivectl agent list")
    lines += [f"\nconnect as {agent}:\n  {view['claude']}" for agent, view in shown.items()]
    lines.append(f"\n{sandbox.line}\nstop: {how_to_stop}")
    lines += [f"\n{text}" for text in report.failed]
    click.echo(safe_block("\n".join(lines)))


def _view(hive: HiveFile, agent: str) -> dict[str, Any]:
    config = hive.agents[agent].mcp_config
    return {"urls": read_surface_urls(config), "mcp_config": str(config), "claude": claude_command(config)}
