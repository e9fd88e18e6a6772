"""Whoever is killed, and when: each task ends as it really did, and its agent is told once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.bash import BashAgent, running_bash_agent
from tests.support.fifty import Fifty


@pytest.fixture
def agent() -> Iterator[BashAgent]:
    """One of its own, whose daemon is killed."""
    with running_bash_agent(HIVE_BASH_KILL_GRACE_SECONDS="1") as running:
        yield running


@pytest.mark.requirement("bash.daemon-killed")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_fifty_tasks_in_every_state_outlive_their_daemon(agent: BashAgent, number: signal.Signals) -> None:
    fifty, bash = Fifty(agent), agent.bash
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(bash.access.call, "kill", id=fifty.stubborn)
        bash.wait_for_output(fifty.stubborn, b"told")
        bash.unit.signal(number)
        bash.unit.wait()
        fifty.change_while_the_daemon_is_away()
        bash.unit.start()
        if call.exception(50) is None and not call.result().is_error:
            # A daemon that is told to stop answers what it can.
            fifty.shown.add(fifty.stubborn)
    fifty.bring_to_their_ends()

    fifty.check()
