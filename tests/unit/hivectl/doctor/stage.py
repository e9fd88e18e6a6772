"""A hive's files, in which a test may spoil what it likes; nothing runs."""

from __future__ import annotations

from pathlib import Path

from services.hivectl.doctor.check import Check
from services.hivectl.doctor.examination import examine
from services.hivectl.provision import add_agent
from services.hivectl.supervisor.request import build_request, prepare_files
from shared.layout import HiveLayout, PortPlan
from shared.permissions import AGENT_DEFAULT
from shared.wire.agents import Agent, Grants, HiveInfo
from tests.support.ports import find_port_base
from tests.unit.hivectl.provision.registry import Registry

# In as bad a state as it can tell of.
HIVE = HiveInfo(
    hive_name="hive",
    revision="0.0.1",
    agents=1,
    nats_connected=False,
    notices_waiting=1,
    notices_oldest_at=1000,
    messages_parked=3,
    driver_connected=False,
)
IRIS = Agent(
    id=1,
    name="iris",
    port_block=0,
    running=True,
    wanted=True,
    created_at=1,
    grants=Grants(groups=list(AGENT_DEFAULT), capabilities=[]),
    revision="0.0.1",
)


class Stage:
    """The files, of a hive with an embedded NATS server and the agent iris."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.layout = HiveLayout(directory / "h")
        self.ports = PortPlan(find_port_base())
        request = build_request(
            root=self.layout.root, agents=(), port_base=self.ports.base, nats_url=None, hive_name=None
        )
        prepare_files(request, {})
        add_agent(self.layout, Registry(), self.ports, "iris")

    def examine(self, name: str) -> Check:
        """The worst check of that name, by doctor as a whole."""
        return min((one for one in examine(self.layout) if one.name == name), key=lambda check: check.ok)
