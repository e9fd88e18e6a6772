"""NATS and the broker: what every agent needs, started before and stopped after all of them."""

from __future__ import annotations

import anyio
import anyio.abc
import structlog

from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.keeper import Keeper, Outcome, UnitExit
from services.hivectl.supervisor.units import Units
from shared.errors import HiveError, Misconfigured

READY_SECONDS = 30.0
STOP_SECONDS = 15.0

_log = structlog.get_logger(__name__)


class Infrastructure:
    """The two keepers; `tasks` is where they live."""

    def __init__(self, units: Units, tasks: anyio.abc.TaskGroup, console: Console) -> None:
        self._units = units
        self._tasks = tasks
        self._console = console
        self._nats: Keeper | None = None
        self._broker: Keeper | None = None

    @property
    def broker_ready(self) -> bool:
        return self._broker is not None and self._broker.ready

    async def start(self) -> str | None:
        """Start both beside each other. Without NATS the hive works, and notices wait: it is tried on and on.

        Returns:
            Why NATS is not there, if it is not.

        Raises:
            Misconfigured: when the broker says that its settings are wrong.
            HiveError: when it did not come up for another reason; it says why.
        """
        self._broker = self._units.build_broker(self)
        self._nats = self._units.build_nats(self)
        slow: list[Keeper] = []

        async def start(keeper: Keeper) -> None:
            outcome = await keeper.start(self._tasks, timeout_seconds=READY_SECONDS)
            if outcome is not Outcome.READY:
                slow.append(keeper)

        async with anyio.create_task_group() as starting:
            for keeper in (self._nats, self._broker):
                if keeper is not None:
                    starting.start_soon(start, keeper)
        if self._broker in slow:
            reason = "; ".join(one.explain(READY_SECONDS) for one in slow)
            if self._broker.has_bad_settings:
                raise Misconfigured(reason)
            raise HiveError(reason, code="start_failed")
        return slow[0].explain(READY_SECONDS) if slow else None

    def close_sockets(self, port_block: int) -> None:
        """Give up the ports of an agent that is not going to run."""
        self._units.close_block(port_block)

    async def stop(self, *, at_once: bool = False) -> None:
        """The broker first, so that its last notices find NATS."""
        for keeper in (self._broker, self._nats):
            if keeper is not None and keeper.alive:
                await keeper.stop(grace_seconds=0 if at_once else STOP_SECONDS)
                self._console.say(f"{keeper.name:<20} stopped")

    def unit_ready(self, name: str, seconds: float) -> None:
        """Part of `KeeperListener`."""
        _log.info("unit_ready", name=name, seconds=round(seconds, 3))
        self._console.say(f"{name:<20} ready {seconds:.1f} s")

    def unit_exited(self, name: str, exit_: UnitExit) -> None:
        """Part of `KeeperListener`."""
        _log.error("unit_exited", name=name, **exit_.status.model_dump(), restart_in=exit_.restart_in)
        self._console.say(f"{name:<20} {exit_.describe()}")
