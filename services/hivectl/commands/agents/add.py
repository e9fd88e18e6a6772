"""`agent add`: an agent's row, files and credential; then a job to start it."""

from __future__ import annotations

import click

from services.hivectl.agent_view import view_agent
from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.job import queue_job, wait_for_job
from services.hivectl.names import AGENT_NAME
from services.hivectl.provision import add_agent
from services.hivectl.render import print_fields
from services.hivectl.session import Session
from shared.wire.lifecycle import JobKind


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl agent add iris", "below the root agent"),
        ("hivectl agent add fred --parent iris --no-start", ""),
    ),
)
@click.argument("name", type=AGENT_NAME)
@click.option(
    "--parent", type=AGENT_NAME, metavar="NAME", help="The agent above it; by default the root agent."
)
@click.option(
    "--no-start", is_flag=True, help="Only create it; it stays down, also over `up`, until `agent start`."
)
@pass_session
def add(session: Session, name: str, parent: str | None, no_start: bool) -> None:
    """Create an agent with its credential, state directory and MCP configuration, and start it."""
    layout = session.layout
    with session.open_client() as client:
        created = add_agent(layout, client, session.read_ports(), name, parent=parent, wanted=not no_start)
        if not no_start:
            wait_for_job(session, client, queue_job(client, name, JobKind.START, say=session.note))
        view = view_agent(client.get_agent(created.name), session.read_hive(), layout)
    if session.as_json:
        session.emit_json(view)
        return
    click.echo(f"{name} is {view['state']}")
    print_fields(
        [
            *((f"{surface} URL", url) for surface, url in view["urls"].items()),
            ("mcp config", view["mcp_config"]),
            ("state dir", view["state_dir"]),
        ]
    )
