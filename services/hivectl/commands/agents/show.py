"""`agent list` and `agent show`."""

from __future__ import annotations

import click

from services.hivectl.agent_view import order_tree, state_word, view_agent
from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import format_age, format_time, print_fields, print_table
from services.hivectl.session import Session
from shared.wire.agents import Agent
from shared.wire.names import OPERATOR


@click.command(
    "list",
    cls=HiveCommand,
    examples=(
        ("hivectl agent list", ""),
        ("hivectl agent list --json | jq -r '.[].name'", ""),
    ),
)
@click.option("--destroyed", is_flag=True, help="Also agents that were destroyed.")
@pass_session
def list_(session: Session, destroyed: bool) -> None:
    """All agents, as a tree: each below its parent."""
    hive = session.read_hive()
    with session.open_client() as client:
        agents = client.list_agents(destroyed=destroyed)
    if session.as_json:
        session.emit_json([view_agent(agent, hive, session.layout) for agent in agents])
        return
    if not agents:
        click.echo("there is no agent; add one with `hivectl agent add NAME`")
        return
    print_table(
        ("AGENT", "STATE", "TURN", "PENDING", "STATUS", "SET"),
        [
            (
                "  " * depth + agent.name,
                state_word(agent),
                agent.turn_state or "-",
                str(agent.pending),
                agent.status_text or "-",
                format_age(agent.status_set_at),
            )
            for depth, agent in order_tree(agents)
        ],
    )


@click.command(
    cls=HiveCommand,
    examples=(("hivectl agent show iris", ""), ("hivectl agent show iris --json | jq .urls.hyperhive", "")),
)
@click.argument("name", type=AGENT_NAME)
@pass_session
def show(session: Session, name: str) -> None:
    """One agent in full: state, permissions, URLs and paths."""
    hive = session.read_hive()
    with session.open_client() as client:
        agent = client.get_agent(name)
    view = view_agent(agent, hive, session.layout)
    if session.as_json:
        session.emit_json(view)
        return
    print_fields(
        [
            ("name", agent.name),
            ("parent", agent.parent or "-"),
            ("state", _describe_state(agent)),
            (
                "turn",
                f"{agent.turn_state} since {format_time(agent.turn_state_since)}"
                if agent.turn_state
                else "-",
            ),
            ("status", agent.status_text or "-"),
            ("status set", format_time(agent.status_set_at)),
            ("pending", str(agent.pending)),
            ("groups", ", ".join(agent.grants.groups) or "none"),
            ("capabilities", ", ".join(agent.grants.capabilities) or "none"),
            ("may write to", _describe_recipients(agent)),
            *((f"path {path.mode}", path.path) for path in agent.grants.paths),
            ("revision", agent.revision or "-"),
            ("created", format_time(agent.created_at)),
            *((f"{surface} URL", url) for surface, url in view["urls"].items()),
            ("mcp config", view["mcp_config"] or "-"),
            ("state dir", view["state_dir"] or "-"),
        ]
    )


def _describe_state(agent: Agent) -> str:
    word = state_word(agent)
    if agent.running and agent.connected_units:
        return f"{word}; connected: {', '.join(agent.connected_units)}"
    if not agent.running and agent.wanted:
        return f"{word}, though it should run"
    return word


def _describe_recipients(agent: Agent) -> str:
    allowed = agent.grants.allowed_recipients
    return ", ".join([OPERATOR, *allowed]) if allowed else "everybody"
