"""`hivectl prepare`: the files of a hive whose units are started by somebody else, such as systemd."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.session import Session
from shared.errors import Conflict


@click.command(
    cls=HiveCommand,
    examples=(
        (
            "hivectl prepare --root /var/lib/hyperhive",
            "for the units in deploy/systemd; redirect it into the broker's .env",
        ),
        ("hivectl prepare --nats-url nats://127.0.0.1:4222", "with a NATS server that somebody else runs"),
    ),
)
@click.option(
    "--port-base",
    type=int,
    metavar="N",
    help="First of the hive's ports; kept for the next time.  [default: 7000]",
)
@click.option("--hive-name", metavar="NAME", help="What notices call this hive; kept.  [default: hive]")
@click.option(
    "--nats-url",
    metavar="URL",
    help="Use this NATS server, and write no configuration for one; kept.  "
    "[default: embedded, for the hive's own]",
)
@pass_session
def prepare(session: Session, *, port_base: int | None, hive_name: str | None, nats_url: str | None) -> None:
    """Write a hive's files, and start nothing: directories, credentials, hive.json, NATS' configuration.

    Prints the broker's settings as an environment file. What is there already is kept, so it may be
    repeated; a NATS server that runs takes the configuration in with a reload. As root, files get the owner
    of the directory that they lie in.
    """
    from services.hivectl.supervisor.environment import broker_settings  # noqa: PLC0415 - heavy
    from services.hivectl.supervisor.instance import is_running  # noqa: PLC0415
    from services.hivectl.supervisor.request import build_request, prepare_files  # noqa: PLC0415

    layout = session.layout
    if is_running(layout):
        raise Conflict(f"`hivectl up` runs the hive in {layout.root}; its files are in place")
    request = build_request(
        root=layout.root, agents=(), port_base=port_base, nats_url=nats_url, hive_name=hive_name
    )
    settings, nats = prepare_files(request)
    broker = broker_settings(layout, settings.ports, settings.hive_name) | dict(nats.broker_settings)
    nats_config = None if nats.config is None else str(nats.config)
    if session.as_json:
        session.emit_json({"root": str(layout.root), "nats_config": nats_config, "broker_settings": broker})
        return
    click.echo("\n".join(f"{name}={value}" for name, value in broker.items()))
    if nats_config is not None:
        session.note(f"nats-server -c {nats_config}")
