"""`hivectl up`: the command line of it."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.session import Session


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl up", "NATS, the broker and the agents, until Ctrl-C"),
        ("hivectl up --agent iris --agent fred --detach", "two agents below ruth, in the background"),
        ("hivectl up --root ./hive --port-base 7400", "a second hive beside the first"),
        ("hivectl up --nats-url nats://127.0.0.1:4222", "with a NATS server that runs already"),
        ("hivectl up --nats-url embedded", "with the hive's own again"),
    ),
)
@click.option(
    "--agent",
    "agents",
    type=AGENT_NAME,
    multiple=True,
    metavar="NAME",
    help="Make this agent below ruth, unless there is one, and start it. May be repeated.",
)
@click.option(
    "--port-base",
    type=int,
    metavar="N",
    help="First of the hive's ports; kept for the next time.  [default: 7000]",
)
@click.option("--detach", is_flag=True, help="Return when all is ready; `hivectl down` ends it.")
@click.option(
    "--nats-url",
    metavar="URL",
    help="Use this NATS server; kept, with HIVE_BROKER_NATS_USER and HIVE_BROKER_NATS_PASSWORD_FILE, for the "
    "next time.  [default: embedded, for the hive's own]",
)
@click.option("--hive-name", metavar="NAME", help="What notices call this hive; kept.  [default: hive]")
@pass_session
def up(
    session: Session,
    *,
    agents: tuple[str, ...],
    port_base: int | None,
    detach: bool,
    nats_url: str | None,
    hive_name: str | None,
) -> int:
    """Run the whole hive on this machine, and restart what dies.

    Where a hive runs already it is left alone; agents that are named are made and started besides.
    Ctrl-C stops all in order; a second one at once. HIVE_* settings of the environment reach the units.
    """
    from services.hivectl.up import UpOptions, run_up  # noqa: PLC0415 - heavy, and not needed for --help

    return run_up(
        UpOptions(
            root=session.layout.root,
            agents=agents,
            port_base=port_base,
            detach=detach,
            nats_url=nats_url,
            hive_name=hive_name,
            as_json=session.as_json,
        )
    )
