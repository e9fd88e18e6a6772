"""`hivectl down`: the command line of it."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.session import Session


@click.command(
    cls=HiveCommand,
    examples=(("hivectl down", ""), ("hivectl down --now", "agents are not given time to end their turn")),
)
@click.option("--now", is_flag=True, help="End everything at once.")
@pass_session
def down(session: Session, now: bool) -> int:
    """Stop the hive that `up` runs: agents first, then the broker, then NATS.

    Agents get up to two minutes to end their turn. The next `up` starts them again.
    """
    from services.hivectl.down import DownOptions, run_down  # noqa: PLC0415 - not needed for --help

    code = run_down(DownOptions(root=session.layout.root, now=now, as_json=session.as_json))
    if session.as_json:
        session.emit_json({"running": False})
    return code
