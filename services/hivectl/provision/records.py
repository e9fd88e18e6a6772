"""Writes `hive.json`, from which scripts and every other command learn where things are."""

from __future__ import annotations

from services.hivectl.hive_file import AgentPart, BrokerPart, HiveFile, NatsPart, read_hive_file
from services.hivectl.provision.owned import write_owned
from shared.errors import Misconfigured
from shared.layout import HiveLayout, PortPlan


def write_hive_file(layout: HiveLayout, ports: PortPlan, nats: NatsPart | None) -> None:
    """Write it anew, with the agents whose files are complete. Call under the hive's lock."""
    broker = BrokerPart(
        url=f"http://127.0.0.1:{ports.broker}", operator_token_file=layout.operator_token_file
    )
    _write(layout, HiveFile(broker=broker, nats=nats, agents=_list_agents(layout)))


def refresh_hive_file(layout: HiveLayout) -> None:
    """Bring its agents up to date. Call under the hive's lock.

    Raises:
        Misconfigured: when `up` has not written it yet.
    """
    _write(layout, read_hive_file(layout).model_copy(update={"agents": _list_agents(layout)}))


def is_hive_file_right(layout: HiveLayout) -> bool:
    """Whether it is there and can be read."""
    try:
        read_hive_file(layout)
    except Misconfigured:
        return False
    return True


def _list_agents(layout: HiveLayout) -> dict[str, AgentPart]:
    """`mcp.json` is the last of an agent's files to be written and the first to go."""
    found = {}
    for config in sorted((layout.root / "agents").glob("*/mcp.json")):
        paths = layout.agent(config.parent.name)
        found[config.parent.name] = AgentPart(
            mcp_config=paths.mcp_config,
            state_dir=paths.state_dir,
            token_file=paths.token_file,
            agent_socket=paths.agent_socket,
            core_socket=paths.core_socket,
        )
    return found


def _write(layout: HiveLayout, content: HiveFile) -> None:
    write_owned(layout.hive_json, content.model_dump_json(indent=2).encode() + b"\n")
