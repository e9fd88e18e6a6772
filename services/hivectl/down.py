"""`hivectl down`: asks the supervisor to end, and waits until it and all units have."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from services.hivectl.render import safe_block
from services.hivectl.supervisor.children import end_leftovers, list_running
from services.hivectl.supervisor.console import Console, QuietConsole, TerminalConsole
from services.hivectl.supervisor.instance import Instance, find_instance, is_running
from services.hivectl.supervisor.task_end import end_tasks, list_agents_on_disk
from shared.errors import HiveError, Misconfigured
from shared.layout import HiveLayout

# An agent may take 120 s to end its turn; then come the broker and NATS.
DOWN_SECONDS = 180.0
_NAMING_SECONDS = 5.0
_LEFTOVER_SECONDS = 10.0
_TASK_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class DownOptions:
    """`now` ends everything at once, without letting agents finish."""

    root: Path
    now: bool = False
    as_json: bool = False


def run_down(options: DownOptions) -> int:
    """Do it; a hive that does not run is down.

    Raises:
        HiveError: when it does not end, or may not be signalled.
    """
    layout = HiveLayout(options.root.expanduser().resolve())
    console: Console = QuietConsole() if options.as_json else TerminalConsole()
    instance = _find(layout)
    if instance is None:
        # Units of a supervisor that was killed are ending by themselves.
        end_leftovers(layout, grace_seconds=_LEFTOVER_SECONDS, say=console.say)
        _end_tasks(layout, console, grace_seconds=0 if options.now else _TASK_GRACE_SECONDS)
        console.say(f"no hive runs in {layout.root}")
        return 0
    console.say(f"stopping the hive in {layout.root} (supervisor {instance.pid})")
    if not instance.stopping:
        _signal(instance, signal.SIGTERM)
    if options.now:
        # Another one, since two of the same may arrive as one.
        _signal(instance, signal.SIGINT)
    _wait(layout, console)
    console.say("the hive is down")
    return 0


def _end_tasks(layout: HiveLayout, console: Console, *, grace_seconds: float) -> None:
    """End what a supervisor that was killed could not: the agents' background tasks."""
    for agent in list_agents_on_disk(layout):
        survivors = end_tasks(layout, agent, reason="the hive went down", grace_seconds=grace_seconds)
        if survivors:
            console.say(safe_block(f"{agent:<20} could not end {'; '.join(survivors)}"))


def _find(layout: HiveLayout) -> Instance | None:
    """The supervisor; one that has just begun may not have written its name yet."""
    deadline = time.monotonic() + _NAMING_SECONDS
    while is_running(layout):
        if (instance := find_instance(layout)) is not None:
            return instance
        if time.monotonic() > deadline:
            raise Misconfigured(
                f"a supervisor of {layout.root} runs and does not say which process it is; look for `hivectl "
                "up` in the list of processes and end it with `kill PID`, which stops the hive in order",
                code="lock_damaged",
            )
        time.sleep(_POLL_SECONDS)
    return None


def _signal(instance: Instance, number: signal.Signals) -> None:
    try:
        os.kill(instance.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as exc:
        raise Misconfigured(
            f"supervisor {instance.pid} belongs to another user; run `hivectl down` as that one"
        ) from exc


def _wait(layout: HiveLayout, console: Console) -> None:
    """Until the lock is free, saying which unit ended."""
    running = {one.name for one in list_running(layout)}
    deadline = time.monotonic() + DOWN_SECONDS
    while is_running(layout):
        if time.monotonic() > deadline:
            names = safe_block(", ".join(sorted(running)))
            raise HiveError(
                f"still running after {DOWN_SECONDS:.0f} s: {names}; `hivectl down --now` ends it at once",
                code="still_running",
            )
        now = {one.name for one in list_running(layout)}
        for name in sorted(running - now):
            console.say(f"{name:<20} ended")
        running = now
        time.sleep(_POLL_SECONDS)
