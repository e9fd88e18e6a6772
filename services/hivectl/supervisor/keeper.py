"""Keeps one unit running: starts it, sees when it is ready, sees when it ends, starts it again after a pause.

Knows nothing of agents, jobs or the broker; whoever does, listens.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import anyio
import anyio.abc

from services.hivectl.supervisor.spawn import Child
from shared.errors import HiveError
from shared.wire.lifecycle import ExitStatus

# Bad settings: trying again cannot help (style.md; RestartPreventExitStatus of the systemd units).
EXIT_MISCONFIGURED = 3


@dataclass(frozen=True)
class Pauses:
    """The pause before a restart doubles up to a maximum, and starts over after a long enough life."""

    first_seconds: float = 0.2
    # Calls wait in the listening socket meanwhile, and their patience is 45 s.
    max_seconds: float = 5.0
    long_life_seconds: float = 10.0


@dataclass(frozen=True)
class UnitExit:
    """An end that nobody asked for.

    `restart_in` is None when it stays down; `is_awaited` says that somebody waits for the start to succeed.
    """

    status: ExitStatus
    was_ready: bool
    last_lines: str
    restart_in: float | None
    is_awaited: bool = False

    def describe(self) -> str:
        """What happened and what follows, for people; with the reason, unless somebody waits to give it."""
        then = "stays down" if self.restart_in is None else f"starts again in {self.restart_in:.1f} s"
        if self.was_ready or self.is_awaited:
            return f"{self._how()}, {then}"
        return f"{self._how()}, {then}{self._why()}"

    def explain(self) -> str:
        """Why it is not there, for people."""
        return f"{self._how()}{self._why()}"

    def _how(self) -> str:
        if self.status.signal is not None:
            how = f"ended by {_signal_name(self.status.signal)}"
        elif self.status.code is not None:
            how = f"exited with code {self.status.code}"
        else:
            return "could not be started"
        return how if self.was_ready else f"{how} before it was ready"

    def _why(self) -> str:
        return f"; it logged:\n{self.last_lines}" if self.last_lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class KeeperListener(Protocol):
    """Who wants to know. Both are called in the order in which things happened, and must not wait."""

    def unit_ready(self, name: str, seconds: float) -> None:
        """The unit answers; `seconds` after its start."""

    def unit_exited(self, name: str, exit_: UnitExit) -> None:
        """The unit ended by itself."""


class Outcome(Enum):
    """How a start went."""

    READY = "ready"
    ENDED = "ended"
    TOO_SLOW = "too slow"


class Keeper:
    """One unit. `start` and `stop` must not overlap; a stopped keeper is done with.

    Args:
        launch: starts the process, in bounded time; may raise `HiveError`.
        probe: returns once the unit answers; it is cancelled when the unit ends first.
        persistent: whether a unit that ended before it was ever ready is tried again.
    """

    def __init__(
        self,
        name: str,
        *,
        launch: Callable[[], Awaitable[Child]],
        probe: Callable[[], Awaitable[None]],
        listener: KeeperListener,
        persistent: bool,
        pauses: Pauses | None = None,
    ) -> None:
        self.name = name
        self._launch = launch
        self._probe = probe
        self._listener = listener
        self._persistent = persistent
        self._pauses = pauses or Pauses()
        self._child: Child | None = None
        self._ready = False
        self._terminated = False
        self._settled = anyio.Event()
        self._stop_asked = anyio.Event()
        self._finished = anyio.Event()
        self.last_exit: UnitExit | None = None

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def alive(self) -> bool:
        """Whether it runs or will run again."""
        return not self._finished.is_set()

    @property
    def has_bad_settings(self) -> bool:
        """Whether it ended saying so; it stays down then."""
        return self.last_exit is not None and self.last_exit.status.code == EXIT_MISCONFIGURED

    @property
    def stays_down(self) -> bool:
        """Whether it ended and is not going to be started again."""
        return self.last_exit is not None and self.last_exit.restart_in is None

    async def start(self, tasks: anyio.abc.TaskGroup, *, timeout_seconds: float) -> Outcome:
        """Run it in `tasks`; wait until it is ready, has ended, or time is up (then it goes on trying)."""
        tasks.start_soon(self._run, name=f"keeper of {self.name}")
        with anyio.move_on_after(timeout_seconds):
            await self._settled.wait()
            return Outcome.READY if self._ready else Outcome.ENDED
        return Outcome.TOO_SLOW

    async def stop(self, *, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL after `grace_seconds`; returns when it has ended. No listener is told."""
        self._stop_asked.set()
        child = self._child
        if child is not None and grace_seconds > 0:
            if not self._terminated:
                # Once: to a unit, a second signal means to end at once.
                self._terminated = True
                child.terminate()
            with anyio.move_on_after(grace_seconds):
                await child.ended.wait()
        self.kill_now()
        await self._finished.wait()

    def kill_now(self) -> None:
        """SIGKILL without waiting; after a `stop` was asked for it stays down."""
        if self._child is not None:
            self._child.kill()

    def last_lines(self) -> str:
        """What it logged last, in this life or the one before."""
        if self._child is not None:
            return self._child.last_lines()
        return self.last_exit.last_lines if self.last_exit else ""

    def explain(self, ready_seconds: float) -> str:
        """Why it was not ready within `ready_seconds`, for people."""
        if self.last_exit is not None:
            return f"{self.name} {self.last_exit.explain()}"
        lines = self.last_lines()
        return f"{self.name} was not ready within {ready_seconds:.0f} s" + (
            f"; it logged:\n{lines}" if lines else ""
        )

    async def _run(self) -> None:
        pause = self._pauses.first_seconds
        try:
            while not self._stop_asked.is_set():
                began = time.monotonic()
                exit_ = await self._live_once(began)
                if self._stop_asked.is_set():
                    return
                if time.monotonic() - began >= self._pauses.long_life_seconds:
                    pause = self._pauses.first_seconds
                again = (self._persistent or exit_.was_ready) and exit_.status.code != EXIT_MISCONFIGURED
                self._persistent = self._persistent or exit_.was_ready
                self.last_exit = replace(
                    exit_, restart_in=pause if again else None, is_awaited=not self._settled.is_set()
                )
                self._listener.unit_exited(self.name, self.last_exit)
                self._settled.set()
                if not again:
                    return
                with anyio.move_on_after(pause):
                    await self._stop_asked.wait()
                pause = min(pause * 2, self._pauses.max_seconds)
        finally:
            self.kill_now()
            self._finished.set()
            self._settled.set()

    async def _live_once(self, began: float) -> UnitExit:
        try:
            child = self._child = await self._launch()
        except HiveError as exc:
            # As if it had ended at once: what is missing may come back, as after an upgrade in place.
            return UnitExit(ExitStatus(), False, exc.message, None)
        if self._stop_asked.is_set():
            # Whoever asked found nothing to signal. It has hardly begun.
            child.kill()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_ready, began)
            status = await child.wait()
            tasks.cancel_scope.cancel()
        was_ready, self._ready, self._child = self._ready, False, None
        return UnitExit(status, was_ready, child.last_lines(), None)

    async def _watch_ready(self, began: float) -> None:
        await self._probe()
        self._ready = True
        self._listener.unit_ready(self.name, time.monotonic() - began)
        self._settled.set()
