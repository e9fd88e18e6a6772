"""An agent hears of the end of a task exactly once: in an answer, or by a todo that goes once it was seen."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from tests.support.bash import BashAgent, state_of
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _settled(agent: BashAgent) -> Iterator[None]:
    """What a test leaves untold or open would be taken for the next one's."""
    yield
    agent.bash.unit.revive()
    agent.hyperhive.revive()
    for task in agent.todos():
        agent.bash.kill(task)
    eventually(lambda: not agent.todos(), what="no todos")


def _say_last(agent: BashAgent) -> str:
    """A todo of a task that ended after all others: whatever was to be told of them has been."""
    last = agent.bash.start("true")
    agent.wait_for_todos(last)
    return last


@pytest.mark.requirement("bash.wake-inline")
def test_an_end_that_run_shows_wakes_nobody(agent: BashAgent) -> None:
    shown = agent.bash.run("exit 3", wait_seconds=20)

    assert state_of(shown).startswith("done, exit code 3")
    last = _say_last(agent)
    assert set(agent.todos()) == {last}


@pytest.mark.requirement("bash.wake-once")
def test_an_end_after_the_answer_makes_one_todo_that_tells_it(agent: BashAgent) -> None:
    task = agent.bash.start("echo the reason; echo details >&2; exit 3")

    todo = agent.wait_for_todos(task)[task]

    assert "done, exit code 3" in todo["summary"]
    assert task in todo["summary"]
    assert "the reason" in todo["detail"]
    assert "details" in todo["detail"]
    _say_last(agent)
    assert agent.todos()[task] == todo


@pytest.mark.requirement("bash.wake-once")
def test_several_ends_are_listed_together(agent: BashAgent) -> None:
    tasks = [agent.bash.start(f"exit {number}") for number in range(8)]

    todos = agent.wait_for_todos(*tasks)

    assert set(todos) == set(tasks)
    for number, task in enumerate(tasks):
        assert f"exit code {number}" in todos[task]["summary"]
    listed = agent.units.agents["iris"].call("get_loose_ends").ok()
    assert all(task in listed for task in tasks)


@pytest.mark.requirement("bash.wake-cleared")
@pytest.mark.parametrize("tool", ["status", "kill"])
def test_an_answer_that_shows_the_end_clears_its_todo(agent: BashAgent, tool: str) -> None:
    task = agent.bash.start("exit 5")
    agent.wait_for_todos(task)

    assert state_of(agent.bash.call(tool, id=task).ok()).startswith("done, exit code 5")

    eventually(lambda: task not in agent.todos(), what="cleared")
    assert task not in agent.wait_for_todos(_say_last(agent))


@pytest.mark.requirement("bash.wake-cleared")
def test_a_page_or_the_list_does_not_count_as_having_shown_the_end(agent: BashAgent) -> None:
    task = agent.bash.start("echo text")
    agent.wait_for_todos(task)

    agent.bash.status(task, stream="out")
    agent.bash.list()

    _say_last(agent)
    assert task in agent.todos()


@pytest.mark.requirement("bash.wake-inline")
def test_a_killed_task_and_a_status_that_waits_wake_nobody(agent: BashAgent) -> None:
    killed = agent.bash.start("sleep 1000")
    awaited = agent.bash.start("read x; exit 6", stdin=True)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(agent.bash.status, awaited, wait_seconds=30)
        agent.bash.kill(killed)
        agent.bash.send_input(awaited, "go\n")
        first = answer.result()

    # A task that waits for input ends the wait as well.
    assert state_of(first if "done" in first else agent.bash.status(awaited, wait_seconds=30)).startswith(
        "done"
    )
    last = _say_last(agent)
    eventually(lambda: set(agent.todos()) == {last})


@pytest.mark.requirement("bash.wake-caller-gone")
def test_a_caller_who_has_left_is_woken(agent: BashAgent) -> None:
    task = agent.bash.start("read x; exit 7", stdin=True)
    held = agent.bash.unit.descriptors()

    async def leave() -> None:
        async with agent.bash.access.client() as client:
            # It waits from the start of the task on, which is not seen to wait for input so soon.
            with anyio.move_on_after(1):
                await client.call_tool("status", {"id": task, "wait_seconds": 30})

    anyio.run(leave)
    eventually(lambda: agent.bash.unit.descriptors() <= held, what="the daemon has hung up, too")
    agent.bash.send_input(task, "go\n")

    assert "exit code 7" in agent.wait_for_todos(task)[task]["summary"]


@pytest.mark.requirement("bash.wake-input")
def test_a_task_that_waits_for_input_says_so_once_until_it_gets_some(agent: BashAgent) -> None:
    task = agent.bash.start("printf 'name? '; read name; printf 'age? '; read age; exit 8", stdin=True)

    first = agent.wait_for_todos(task)[task]
    assert "waits for input" in first["summary"]
    assert "name?" in first["detail"]
    agent.bash.send_input(task, "iris\n")
    eventually(lambda: "age?" in agent.todos().get(task, first)["detail"], what="the second prompt")
    assert agent.todos()[task]["id"] != first["id"]
    agent.bash.send_input(task, "7\n")

    eventually(lambda: "exit code 8" in agent.todos().get(task, first)["summary"])


@pytest.mark.requirement("bash.wake-input")
def test_an_answer_that_shows_the_prompt_clears_its_todo(agent: BashAgent) -> None:
    task = agent.bash.start("printf 'name? '; read name", stdin=True)
    agent.wait_for_todos(task)

    assert "It waits for input" in agent.bash.status(task)

    eventually(lambda: task not in agent.todos())
    agent.bash.unit.restart()
    assert "It waits for input" in agent.bash.status(task)
    _say_last(agent)
    assert task not in agent.todos()
    agent.bash.kill(task)


@pytest.mark.requirement("bash.wake-socket-away")
def test_todos_wait_on_disk_while_nobody_takes_them(agent: BashAgent) -> None:
    agent.hyperhive.kill()
    tasks = [agent.bash.start(f"exit {number}") for number in range(3)]
    seen = agent.bash.start("exit 9")
    for task in (*tasks, seen):
        agent.bash.wait_for_state(task, "done")
    agent.bash.status(seen)
    agent.bash.unit.restart()

    agent.hyperhive.start()

    todos = agent.wait_for_todos(*tasks)
    assert set(todos) == set(tasks)
    agent.bash.unit.restart()
    last = _say_last(agent)
    assert agent.todos() == todos | {last: agent.todos()[last]}
