"""What each unit of a hive is started with: program, environment, log, socket, probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.hivectl.provision import BUILT_SURFACES, HiveSettings, NatsFiles
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.children import ChildRegister
from services.hivectl.supervisor.environment import (
    base_environment,
    broker_settings,
    surface_settings,
    unit_environment,
)
from services.hivectl.supervisor.fork_server.client import ForkServer
from services.hivectl.supervisor.keeper import Keeper, KeeperListener
from services.hivectl.supervisor.listeners import Listeners
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.probes import Probe, http_probe, nats_probe
from services.hivectl.supervisor.spawn import Child, UnitSpec, spawn
from shared.layout import HiveLayout

SURFACE_MODULES: Mapping[str, str] = {
    "hyperhive": "services.hyperhive_mcp",
    "bash": "services.bash_daemon",
}


@dataclass(frozen=True)
class HivePlan:
    """What `up` was asked for, all questions answered. Without `nats_program` the server is not ours."""

    layout: HiveLayout
    settings: HiveSettings
    nats: NatsFiles
    nats_program: Path | None
    caller: Mapping[str, str]


class Units:
    """Builds keepers. Holds the listening sockets."""

    def __init__(
        self, plan: HivePlan, listeners: Listeners, children: ChildRegister, fork_server: ForkServer | None
    ) -> None:
        self._plan = plan
        self._listeners = listeners
        self._children = children
        self._fork_server = fork_server

    def build_nats(self, listener: KeeperListener) -> Keeper | None:
        """The embedded server, if there is one. It binds its port itself."""
        if self._plan.nats_program is None:
            return None
        argv = (str(self._plan.nats_program), "-c", str(self._plan.nats.config))
        spec = UnitSpec(
            name="nats",
            argv=argv,
            env=base_environment(self._plan.caller),
            log=self._log("nats"),
            cwd=self._plan.layout.root,
        )
        return self._keep(spec, nats_probe(self._plan.settings.ports.nats), listener, persistent=True)

    def build_broker(self, listener: KeeperListener) -> Keeper:
        """The broker.

        Raises:
            Misconfigured: when its port is taken.
        """
        plan = self._plan
        port = plan.settings.ports.broker
        settings = broker_settings(plan.layout, plan.settings.ports, plan.settings.hive_name)
        spec = self._own(
            "broker", "broker", "services.broker", settings | dict(plan.nats.broker_settings), port
        )
        return self._keep(spec, http_probe(port), listener, persistent=False)

    def build_surfaces(self, agent: AgentRef, listener: KeeperListener) -> dict[str, Keeper]:
        """A keeper for each surface, the agent's own one first.

        Raises:
            Misconfigured: when a port is taken.
        """
        plan = self._plan
        keepers = {}
        for surface in BUILT_SURFACES:
            port = plan.settings.ports.surface(agent.port_block, surface)
            settings = surface_settings(
                plan.layout, plan.settings.ports, agent.name, agent.port_block, surface
            )
            spec = self._own(f"{surface}-{agent.name}", surface, SURFACE_MODULES[surface], settings, port)
            keepers[surface] = self._keep(spec, http_probe(port), listener, persistent=True, by_fork=True)
        return keepers

    def close_sockets(self, agent: AgentRef, surface: str | None = None) -> None:
        """Give the agent's ports up, or that of one surface."""
        for one in BUILT_SURFACES if surface is None else (surface,):
            self._listeners.close(self._plan.settings.ports.surface(agent.port_block, one))

    def close_block(self, port_block: int) -> None:
        """Give up the ports of a block."""
        for surface in BUILT_SURFACES:
            self._listeners.close(self._plan.settings.ports.surface(port_block, surface))

    def _own(self, name: str, unit: str, module: str, settings: Mapping[str, str], port: int) -> UnitSpec:
        listen_fd = self._listeners.bind(port, name)
        return UnitSpec(
            name=name,
            module=module,
            env=unit_environment(self._plan.caller, unit, settings, listen_fd=listen_fd),
            log=self._log(name),
            cwd=self._plan.layout.root,
            inherited_fd=listen_fd,
        )

    def _keep(
        self,
        spec: UnitSpec,
        probe: Probe,
        listener: KeeperListener,
        *,
        persistent: bool,
        by_fork: bool = False,
    ) -> Keeper:
        async def launch() -> Child:
            if by_fork and self._fork_server is not None:
                forked = await self._fork_server.fork(spec)
                if forked is not None:
                    return forked
            child = spawn(spec)
            self._children.add(child)
            return child

        return Keeper(spec.name, launch=launch, probe=probe, listener=listener, persistent=persistent)

    def _log(self, name: str) -> LogFile:
        return LogFile(self._plan.layout.logs_dir / f"{name}.log")
