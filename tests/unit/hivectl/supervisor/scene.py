"""A runner of one agent whose surfaces are shell scripts, and what it has reported."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.abc

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.agent_parts import AgentRef
from services.hivectl.supervisor.agent_runner import AgentRunner
from services.hivectl.supervisor.console import QuietConsole
from services.hivectl.supervisor.keeper import Keeper, KeeperListener
from services.hivectl.supervisor.listeners import Listeners
from services.hivectl.supervisor.spawn import Child, spawn
from shared.errors import HiveError
from shared.wire.lifecycle import Job, JobKind, JobState
from tests.support.ports import free_port
from tests.unit.hivectl.supervisor.tiny import QUICK, RUNS, ready_at_once, shell_spec

IRIS = AgentRef(agent_id=4, name="iris", port_block=0)


class TinyUnits:
    """Surfaces that are shell scripts, on one real listening socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.script = RUNS
        self.probe: Callable[[], Awaitable[None]] = ready_at_once
        self.before_launch: Callable[[], Awaitable[None]] = ready_at_once
        self.children: list[Child] = []
        # What a second surface runs, if there is one.
        self.second_script: str | None = None
        self.second_probe: Callable[[], Awaitable[None]] = ready_at_once
        self.seconds: list[Child] = []
        self.listeners = Listeners()
        self.port = free_port()

    def build_surfaces(self, agent: AgentRef, listener: KeeperListener) -> dict[str, Keeper]:
        self.listeners.bind(self.port, agent.name)

        async def launch() -> Child:
            await self.before_launch()
            self.children.append(spawn(shell_spec(self.directory, self.script)))
            return self.children[-1]

        keeper = Keeper(
            "tiny", launch=launch, probe=self.probe, listener=listener, persistent=True, pauses=QUICK
        )
        return {"hyperhive": keeper} | self._build_second(listener)

    def _build_second(self, listener: KeeperListener) -> dict[str, Keeper]:
        script = self.second_script
        if script is None:
            return {}

        async def launch() -> Child:
            self.seconds.append(spawn(shell_spec(self.directory, script, name="second")))
            return self.seconds[-1]

        keeper = Keeper(
            "second",
            launch=launch,
            probe=self.second_probe,
            listener=listener,
            persistent=True,
            pauses=QUICK,
        )
        return {"bash": keeper}

    def close_sockets(self, agent: AgentRef, surface: str | None = None) -> None:
        if surface != "bash":
            self.listeners.close(self.port)

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Scene:
    """A runner, and what it has reported."""

    def __init__(
        self,
        directory: Path,
        spool: EventSpool,
        tasks: anyio.abc.TaskGroup,
        *,
        patience_seconds: float = 2,
    ) -> None:
        self.units = TinyUnits(directory)
        self.spool = spool
        self.put_away: list[AgentRef] = []
        self.refuses_to_go = False
        self.ended_tasks: list[tuple[str, float]] = []
        self.runner = AgentRunner(
            IRIS,
            self.units,
            spool,
            tasks,
            QuietConsole(),
            put_away=self._put_away,
            end_tasks=self._end_tasks,
            ready_seconds=patience_seconds,
            stop_seconds=patience_seconds,
        )
        self._jobs = 0

    async def do(self, kind: JobKind, *, is_old: bool = False) -> None:
        self._jobs += 1
        await self.runner.perform(
            Job(
                id=self._jobs,
                kind=kind,
                agent=IRIS.name,
                agent_id=IRIS.agent_id,
                port_block=0,
                state=JobState.CLAIMED,
                created_at=1,
            ),
            is_old=is_old,
        )

    def told(self) -> list[str]:
        return [str(one.event.kind) for one in self.spool.list_oldest(100)]

    async def until_told(self, *kinds: str) -> None:
        while self.told() != list(kinds):
            changed = anyio.Event()
            self.spool.on_append = changed.set
            await changed.wait()

    def _end_tasks(self, agent: AgentRef, *, reason: str, grace_seconds: float) -> list[str]:
        assert agent == IRIS
        self.ended_tasks.append((reason, grace_seconds))
        return []

    def _put_away(self, agent: AgentRef) -> None:
        if self.refuses_to_go:
            raise HiveError("the disk is full", code="storage_failed")
        self.put_away.append(agent)


DEAF = "trap '' TERM; : > deaf; while :; do sleep 1; done"


async def start_deaf(directory: Path, spool: EventSpool, tasks: anyio.abc.TaskGroup) -> Scene:
    """An agent that runs and does not end when it is asked to."""

    async def until_deaf() -> None:
        while not (directory / "deaf").exists():  # noqa: ASYNC110 - a file tells nobody
            await anyio.sleep(0.01)

    scene = Scene(directory, spool, tasks, patience_seconds=600)
    scene.units.script = DEAF
    scene.units.probe = until_deaf
    await scene.do(JobKind.START)
    return scene
