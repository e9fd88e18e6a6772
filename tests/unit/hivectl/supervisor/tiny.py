"""Tiny real units: shell scripts run by the real spawner, so that tests of the supervisor need no daemon."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from services.hivectl.supervisor.keeper import Keeper, Pauses, UnitExit
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.spawn import Child, UnitSpec, spawn

QUICK = Pauses(first_seconds=0.01, max_seconds=0.04)
RUNS = "echo running >&2; exec sleep 600"


def shell_spec(
    directory: Path, script: str, *, name: str = "tiny", inherited_fd: int | None = None
) -> UnitSpec:
    """A unit that is a shell script."""
    return UnitSpec(
        name=name,
        argv=("/bin/sh", "-c", script),
        env={"PATH": os.environ["PATH"]},
        log=LogFile(directory / f"{name}.log"),
        cwd=directory,
        inherited_fd=inherited_fd,
    )


class Watcher:
    """A listener that notes what it was told, and lets tests wait for it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, UnitExit | None]] = []
        self._changed = anyio.Event()

    def unit_ready(self, name: str, seconds: float) -> None:
        assert seconds >= 0
        self._note(name, None)

    def unit_exited(self, name: str, exit_: UnitExit) -> None:
        self._note(name, exit_)

    async def wait_for(self, count: int) -> list[tuple[str, UnitExit | None]]:
        while len(self.told) < count:
            await self._changed.wait()
        return self.told[:count]

    def _note(self, name: str, exit_: UnitExit | None) -> None:
        self.told.append((name, exit_))
        self._changed.set()
        self._changed = anyio.Event()


async def ready_at_once() -> None:
    """A probe of a unit that needs no time."""


async def never_ready() -> None:
    """A probe of a unit that never answers."""
    await anyio.sleep_forever()


def build_keeper(
    directory: Path,
    script: str,
    watcher: Watcher,
    *,
    probe: Callable[[], Awaitable[None]] = ready_at_once,
    persistent: bool = False,
    name: str = "tiny",
) -> tuple[Keeper, list[Child]]:
    """A keeper of a shell script, and the list of processes that it starts."""
    children: list[Child] = []

    async def launch() -> Child:
        children.append(spawn(shell_spec(directory, script, name=name)))
        return children[-1]

    keeper = Keeper(name, launch=launch, probe=probe, listener=watcher, persistent=persistent, pauses=QUICK)
    return keeper, children
