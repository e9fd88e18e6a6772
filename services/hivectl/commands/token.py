"""`hivectl token`: an agent's credential is replaced, never shown."""

from __future__ import annotations

import click

from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.session import Session


@click.group(
    cls=HiveGroup, examples=(("hivectl token rotate iris", ""), ("hivectl token rotate iris --now", ""))
)
def token() -> None:
    """Replace an agent's credential."""


@token.command(
    examples=(
        ("hivectl token rotate iris", "what runs goes on with the old one for ten minutes at most"),
        ("hivectl token rotate iris --now", "the old one may be known to others: it ends at once"),
    ),
)
@click.argument("name", type=AGENT_NAME)
@click.option("--now", is_flag=True, help="End the old token at once, also for a session that runs.")
@pass_session
def rotate(session: Session, name: str, now: bool) -> None:
    """Give an agent a new token, and write it into its `token` and `mcp.json`.

    Daemons take it up by themselves. A `claude` that runs keeps the token it began with.
    """
    from services.hivectl.provision import rotate_token  # noqa: PLC0415

    layout = session.layout
    with session.open_client() as client:
        rotate_token(layout, client, session.read_ports(), name, now=now)
    paths = layout.agent(name)
    if session.as_json:
        view = {"agent": name, "token_file": str(paths.token_file), "mcp_config": str(paths.mcp_config)}
        session.emit_json({**view, "old_token_valid": not now})
        return
    rest = "the old one is void" if now else "the old one ends in ten minutes; --now ends it at once"
    click.echo(f"{name} has a new token in {paths.token_file}; {rest}")
