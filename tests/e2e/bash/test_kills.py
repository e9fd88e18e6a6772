"""Whoever is killed, and when: each task ends as it really did, and its agent is told once."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event

import httpx2
import pytest

from tests.support.bash import (
    BashAgent,
    kill_supervisor_of,
    running_bash_agent,
    spawner_of,
    state_of,
    supervisor_of,
)
from tests.support.fifty import Fifty
from tests.support.waiting import eventually


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


@pytest.mark.requirement("bash.random-kills")
def test_what_was_accepted_runs_once_and_is_told_once_whenever_the_daemon_is_killed(agent: BashAgent) -> None:
    bash, rounds, callers = agent.bash, 8, 4
    bash.unit.preload("services.bash_daemon.__main__")
    # How each answered task ends, by its id. A task says that it runs by a line of its own.
    answered: dict[str, str] = {}
    numbers = itertools.count()
    has_begun = Event()

    def ask(stop: Event) -> None:
        while not stop.is_set():
            number = next(numbers)
            with suppress(httpx2.TransportError):
                task = bash.start(f"echo {number} >> runs/{number}; exit {number % 200}")
                answered[task] = f"{number}"
                has_begun.set()

    (bash.state_dir / "runs").mkdir()
    for _ in range(rounds):
        stop = Event()
        has_begun.clear()
        with ThreadPoolExecutor(callers) as threads:
            calls = [threads.submit(ask, stop) for _ in range(callers)]
            assert has_begun.wait(20)
            # Wherever the callers have come to.
            stop.set()
            bash.unit.kill()
            bash.unit.start()
            for call in calls:
                call.result(20)

    assert len(answered) >= rounds
    todos = agent.wait_for_todos(*answered)
    for task, number in answered.items():
        assert f"exit code {int(number) % 200}," in todos[task]["summary"], todos[task]
        assert (bash.state_dir / "runs" / number).read_text() == f"{number}\n"
    for file in (bash.state_dir / "runs").iterdir():
        assert file.read_text().count("\n") == 1, "a task ran twice"
    eventually(lambda: not bash.list().count(" running:"))
    before = agent.todos()
    bash.unit.restart()
    last = bash.start("true")
    agent.wait_for_todos(last)
    assert agent.todos() == before | {last: agent.todos()[last]}


@pytest.mark.requirement("bash.spawner-killed")
def test_the_process_that_starts_tasks_may_be_killed_and_so_may_supervisors(agent: BashAgent) -> None:
    bash = agent.bash
    kept, lost = bash.start("read x; exit 5", stdin=True), bash.start("sleep 1000")
    for task in (kept, lost):
        eventually(partial(supervisor_of, bash, task))

    os.kill(spawner_of(bash), signal.SIGKILL)
    assert state_of(bash.run("exit 6", wait_seconds=20)).startswith("done, exit code 6")
    os.kill(spawner_of(bash), signal.SIGKILL)
    kill_supervisor_of(bash, lost)

    assert "interrupted" in agent.wait_for_todos(lost)[lost]["summary"]
    bash.send_input(kept, "go\n")
    assert "exit code 5" in eventually(lambda: agent.wait_for_todos(kept)[kept]["summary"])
    assert state_of(bash.run("exit 7", wait_seconds=20)).startswith("done, exit code 7")


@pytest.mark.requirement("bash.spawner-killed")
def test_a_task_whose_supervisor_is_killed_before_it_began_begins_anew(agent: BashAgent) -> None:
    bash = agent.bash
    bash.run("true", wait_seconds=20)
    spawner = spawner_of(bash)
    # It takes no requests meanwhile.
    os.kill(spawner, signal.SIGSTOP)
    tasks = [bash.start(f"echo ran; exit {number}") for number in range(3)]
    os.kill(spawner, signal.SIGKILL)

    for number, task in enumerate(tasks):
        assert state_of(bash.status(task, wait_seconds=30)).startswith(f"done, exit code {number}")
        assert bash.output(task) == b"ran\n"


@pytest.mark.requirement("bash.fifo")
def test_pending_tasks_start_in_their_order_also_after_a_kill_and_can_be_killed_before() -> None:
    with running_bash_agent(HIVE_BASH_MAX_RUNNING_TASKS="1", HIVE_BASH_MAX_QUEUED_TASKS="6") as agent:
        bash = agent.bash
        first = bash.start("read x; echo first >> order", stdin=True)
        rest = [bash.start(f"echo {number} >> order") for number in range(6)]
        refused = bash.call("run", cmd="true").error()
        assert "1 tasks run and 6 wait, which is the limit" in refused
        assert "pending" in state_of(bash.status(rest[0]))
        assert "has not begun" in bash.call("send_input", id=rest[0], text="x").error()

        assert state_of(bash.kill(rest[2])).startswith("killed: it was killed before it began")
        bash.unit.restart()
        bash.send_input(first, "go\n")

        for task in rest:
            bash.end(task)
        assert (bash.state_dir / "order").read_text().split() == ["first", "0", "1", "3", "4", "5"]
        eventually(lambda: set(agent.todos()) == {first})
