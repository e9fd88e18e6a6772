"""`hivectl notices tail`: what happened to agents, read from JetStream. Works while the broker is down."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.exits import ExitCode
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import safe
from services.hivectl.session import Session
from shared.errors import Misconfigured


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl notices tail", "new ones, as they come, until Ctrl-C"),
        ("hivectl notices tail --from-start --agent iris", "all that is kept of iris, then new ones"),
        ("hivectl notices tail --no-follow --json", "what is kept, one CloudEvent a line"),
        ("hivectl notices tail --count 1 --json", "waits for the next one"),
    ),
)
@click.option("--from-start", is_flag=True, help="Begin with the oldest that is kept (7 days).")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N notices.")
@click.option("--no-follow", is_flag=True, help="Print what is kept and end; implies --from-start.")
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Only notices of this agent.")
@pass_session
def tail(session: Session, from_start: bool, count: int | None, no_follow: bool, agent: str | None) -> int:
    """Print notices in order, without a gap, also over a restart of NATS.

    The stream may be shared by several hives; each notice says which hive it is from.
    """
    try:
        asyncio.run(_tail(session, from_start or no_follow, count, follow=not no_follow, agent=agent))
    except KeyboardInterrupt:
        # The usual end of a tail: nothing to say.
        return ExitCode.INTERRUPTED
    return ExitCode.OK


async def _tail(
    session: Session, from_start: bool, count: int | None, *, follow: bool, agent: str | None
) -> None:
    from services.hivectl.bus import subject_filter, tail  # noqa: PLC0415 (nats is slow to import)
    from services.hivectl.notice_login import read_login  # noqa: PLC0415
    from services.hivectl.provision import DEFAULT_READER, reader_file  # noqa: PLC0415

    part = session.read_hive().nats
    if part is None:
        # `up` always gives itself a reader at a server of its own.
        file = reader_file(session.layout, DEFAULT_READER)
        raise Misconfigured(
            "this hive has no reader at its NATS server, which somebody else runs: have a user made there as "
            f"docs/notices.md says, put its password into {file}, then `hivectl down` and `hivectl up`"
        )
    stream = tail(
        read_login(session.layout, part),
        subject=subject_filter(agent),
        from_start=from_start,
        follow=follow,
        on_away=lambda why: session.note(f"hivectl: {why}; waiting for it"),
    )
    printed = 0
    async for notice in stream:
        click.echo(json.dumps(notice.event) if session.as_json else _line(notice.event))
        printed += 1
        if printed == count:
            await stream.aclose()
            return


def _line(event: dict[str, Any]) -> str:
    hive = str(event.get("source", "")).removeprefix("/hives/")
    kind = str(event.get("type", "")).removeprefix("hyperhive.agent.").removesuffix(".v1")
    data = event.get("data")
    facts = f"  {json.dumps(data)}" if data else ""
    return safe(f"{event.get('time')}  {hive}/{event.get('subject')}  {kind}") + safe(facts)
